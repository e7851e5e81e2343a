import { randomUUID } from 'node:crypto'
import {
  type Aim,
  answered,
  type Finding,
  megabytesInAnHourBelow,
  memoryBelow,
  rowsAtMost,
  succeed,
} from './aims.ts'
import { askForOwnMails, mailRequest, makeUnverified } from './mail.ts'
import { ipv4Networks, ipv6Networks, type Networks } from './networks.ts'
import { type Attack, badEvent, endlessEvent, writing, wrongSignIn } from './requests.ts'
import type { Target } from './target.ts'

export interface Flood {
  about: string
  aims: Aim[]
  attack: Attack
  prepare?(target: Target): Promise<void>
  observe?(target: Target, seconds: number): Promise<Finding[]>
}

const KNOWN_SIGN_INS = succeed(0.98, 'sign-in, known network', 'sign-in, known device')
const KNOWN_NETWORK = succeed(0.98, 'sign-in, known network', 'session check')
const LARGEST_BODY = 512 * 1024

export const FLOODS: Record<string, Flood> = {
  'sign-ins-1': signIns('one network', ipv4Networks(1), 0.6),
  'sign-ins-100': signIns('100 networks', ipv4Networks(100), 0.6),
  'sign-ins-1000': signIns('1,000 networks', ipv4Networks(1_000)),
  'sign-ins-5000': signIns('5,000 networks', ipv4Networks(5_000)),
  'sign-ins-ipv6': signIns('one IPv6 /48, each from a different /64', ipv6Networks, 0.6),
  'bodies-unfinished': bodies('bodies of 512 KiB without their last byte', LARGEST_BODY, LARGEST_BODY - 1),
  'bodies-huge': bodies('bodies that announce 1 GiB', 2 ** 30, 2 * LARGEST_BODY),
  'signatures-1': badEvents('with a wrong signature from one network', 1),
  'signatures-100': badEvents('with a wrong signature from 100 networks', 100),
  'signatures-stale': badEvents('with a timestamp of an hour ago from 100 networks', 100, {
    ageMs: 3_600_000,
  }),
  'signatures-unknown': badEvents('for an unknown company from 100 networks', 100, {
    companyId: randomUUID(),
  }),
  'mail-1': mails('one network', ipv4Networks(1)),
  'mail-100': mails('100 networks', ipv4Networks(100)),
  disk: {
    about: '300 sign-ins, registrations, emails, and bad credentials per second from one IPv6 /48',
    aims: [megabytesInAnHourBelow(20), answered(201, 202, 400, 401, 429, 503), ...KNOWN_NETWORK],
    attack: { rate: 300, connections: 200, networks: ipv6Networks, requestOf: writing },
  },
}

/** `newShare`: the share of honest sign-ins from new networks that must succeed. */
function signIns(from: string, networks: Networks, newShare?: number): Flood {
  return {
    about: `500 sign-ins per second with wrong passwords from ${from}`,
    aims: [
      answered(401, 429, 503),
      ...KNOWN_SIGN_INS,
      ...(newShare === undefined ? [] : succeed(newShare, 'sign-in, new network')),
      ...succeed(0.98, 'session check', 'refresh'),
    ],
    // Enough connections for two seconds of waiting sign-ins.
    attack: { rate: 500, connections: 1_000, networks, requestOf: wrongSignIn },
  }
}

function bodies(what: string, announced: number, bytes: number): Flood {
  const connections = 2_500
  return {
    about: `${connections.toLocaleString('en')} ${what}, sent to ingest from one network`,
    aims: [
      memoryBelow(350),
      answered(408, 413, 503),
      ...KNOWN_SIGN_INS,
      ...succeed(0.98, 'sign-in, new network', 'signed event', 'session check'),
    ],
    attack: {
      rate: 1_000,
      connections,
      networks: ipv4Networks(1),
      requestOf: endlessEvent(announced, Buffer.alloc(bytes, ' ')),
    },
  }
}

function badEvents(what: string, networks: number, fault = {}): Flood {
  const rate = 10_000
  return {
    about: `up to ${rate.toLocaleString('en')} events per second ${what}`,
    aims: [answered(401, 429, 503), rowsAtMost(100, 60), ...succeed(0.98, 'signed event', 'session check')],
    attack: {
      rate,
      connections: 500,
      networks: ipv4Networks(networks),
      isKept: true,
      requestOf: badEvent(fault),
    },
  }
}

function mails(from: string, networks: Networks): Flood {
  return {
    about: `20 registrations, password resets, and resends per second for other people's emails, from ${from}`,
    aims: [answered(201, 202, 429, 503), ...KNOWN_NETWORK],
    attack: { rate: 20, connections: 50, networks, requestOf: mailRequest },
    prepare: makeUnverified,
    observe: askForOwnMails,
  }
}
