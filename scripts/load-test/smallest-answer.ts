import fastify from 'fastify'

/** The smallest service that Fastify can be: what a request costs before it does anything. */
const app = fastify()
app.get('/', async () => ({ ok: true }))
console.log(await app.listen({ host: '127.0.0.1', port: 0 }))
// It goes when who started it does.
process.stdin.resume().on('end', () => process.exit())
