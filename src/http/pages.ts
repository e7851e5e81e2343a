import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { type Bundle, loadBundle, type StaticFile } from './bundle.ts'

/**
 * Serves the web application: one page at each of its paths, and what it loads. It uses nothing but the public
 * interface, so there is nothing behind these paths.
 */

/** The paths of src/pages/app.tsx. */
const PATHS = [
  '/',
  '/sign-in',
  '/register',
  '/companies',
  '/forgot-password',
  '/verify-email',
  '/reset-password',
  '/accept-invitation',
  '/confirm-email',
  '/undo',
  '/developer',
  '/members',
  '/security',
  '/activity',
  '/account',
]

/** Only files of the service itself; nothing can frame the page, and no text becomes a script. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

/** Behind the public guard. */
async function plugin(app: FastifyInstance): Promise<void> {
  const { page, assets }: Bundle = await loadBundle()
  const hide = { hide: true }
  for (const path of PATHS) {
    app.get(path, { schema: hide }, async (request, reply) => sendPage(request, reply, page))
  }
  for (const [path, file] of assets) {
    app.get(path, { schema: hide }, async (request, reply) => {
      reply.header('cache-control', 'public, max-age=31536000, immutable')
      return send(request, reply, file)
    })
  }
}

function sendPage(request: FastifyRequest, reply: FastifyReply, page: StaticFile): FastifyReply {
  reply.header('content-security-policy', POLICY)
  return send(request, reply, page)
}

/** In the smallest encoding that the browser takes. */
function send({ headers }: FastifyRequest, reply: FastifyReply, file: StaticFile): FastifyReply {
  const accepted = headers['accept-encoding'] ?? ''
  const encoding = (['br', 'gzip'] as const).find((one) => new RegExp(`\\b${one}\\b`).test(accepted))
  reply.type(file.type).header('vary', 'accept-encoding')
  if (encoding) reply.header('content-encoding', encoding)
  return reply.send(encoding ? file[encoding] : file.plain)
}

/** What the application shows at a path that it does not have. */
export async function sendNotFoundPage(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const { page } = await loadBundle()
  return sendPage(request, reply.code(404), page)
}

export const pagesPlugin = fp(plugin, { name: 'pages', dependencies: ['public-guard'], encapsulate: true })
