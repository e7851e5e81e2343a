import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type NetConnectOpts } from 'node:net'

/** For a listener that must know its port before it starts. Others use port 0. */
export interface Place {
  host: string
  port: number
}

/** Stays free until it is used: on Linux, nothing else uses this IP address. */
export async function findPlace(): Promise<Place> {
  const own = `127.${randomInt(1, 255)}.${randomInt(256)}.${randomInt(1, 255)}`
  const host = process.platform === 'linux' ? own : '127.0.0.1'
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const address = server.address()
  await once(server.close(), 'close')
  if (typeof address !== 'object' || !address) throw new Error('a server has a port')
  return { host, port: address.port }
}

export async function isListening(place: NetConnectOpts): Promise<boolean> {
  const socket = connect(place)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** For the three listeners of a service. */
export async function findServicePlaces() {
  const [{ host, port }, ops, platform] = [await findPlace(), await findPlace(), await findPlace()]
  return {
    env: {
      HOST: host,
      PORT: String(port),
      OPS_HOST: ops.host,
      OPS_PORT: String(ops.port),
      PLATFORM_HOST: platform.host,
      PLATFORM_PORT: String(platform.port),
    },
    address: `http://${host}:${port}`,
    ops: `http://${ops.host}:${ops.port}`,
    platform: `http://${platform.host}:${platform.port}`,
  }
}
