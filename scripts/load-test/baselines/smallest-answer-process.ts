import fastify from 'fastify'

/** Runs in a process of its own: the smallest service that Fastify can be. */
const app = fastify()
app.get('/', async () => ({ ok: true }))
const url = await app.listen({ host: '127.0.0.1', port: 0 })
process.on('disconnect', () => process.exit())
process.send?.(url)
