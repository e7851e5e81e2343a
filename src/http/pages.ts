import { ReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { brotliCompress, brotliDecompress, gunzip, gzip } from 'node:zlib'
import fastifyStatic from '@fastify/static'
import { Type } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { findPages } from './built-pages.ts'
import { SESSION_COOKIE } from './headers.ts'

/** Only our own files: nothing can frame the page, and text cannot become a script. */
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
const OF_PAGE = { 'content-security-policy': POLICY }

/** For password managers (W3C, A Well-Known URL for Changing Passwords), and for a path of earlier releases. */
const REDIRECTS = { '/.well-known/change-password': '/account', '/security': '/company' }
/** In the guides, it stands for the origin of the deployment. */
const PLACEHOLDER = 'https://auth.example.com'

async function files(app: FastifyInstance): Promise<void> {
  await app.register(fastifyStatic, {
    root: await findPages(),
    serve: false,
    preCompressed: true,
    ...{ cacheControl: false, etag: false, lastModified: false, acceptRanges: false },
  })
}

async function plugin(
  app: FastifyInstance,
  { paths, publicUrl }: { paths: readonly string[]; publicUrl: string },
): Promise<void> {
  app.addHook('onSend', fromMemory(publicUrl))
  // The pages read their filters from the query.
  const schema = { hide: true, querystring: Type.Object({}) }
  for (const path of paths) app.get(path, { schema }, sendPage)
  for (const [path, page] of Object.entries(REDIRECTS)) {
    // Not permanent: the previous release has a page there.
    app.get(path, { schema }, async (_request, reply) => reply.headers(OF_PAGE).redirect(page, 302))
  }
  for (const name of await listBuilt('docs')) {
    const path = `/docs/${name}`.replace(/(?:\/index)?\.html$/, '')
    app.get(path, { schema }, async (request, reply) => send(request, reply.headers(OF_PAGE), `docs/${name}`))
    app.get(`${path}/`, { schema }, async (_request, reply) => reply.headers(OF_PAGE).redirect(path, 302))
  }
  for (const name of await listBuilt('assets')) {
    app.get(`/assets/${name}`, { schema, onSend: nameScripts }, async (request, reply) => {
      reply.header('cache-control', 'public, max-age=31536000, immutable')
      return send(request, reply, `assets/${name}`)
    })
  }
}

async function listBuilt(folder: string): Promise<string[]> {
  const names = await readdir(join(await findPages(), folder))
  return names.filter((name) => !/\.(?:br|gz)$/.test(name))
}

/** With a session cookie, the page loads the session and its other pages before its script asks for them. */
export async function sendPage(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const isSignedIn = request.headers.cookie?.includes(`${SESSION_COOKIE}=`)
  return send(request, reply.headers(OF_PAGE), isSignedIn ? 'signed-in.html' : 'index.html')
}

const CONDITIONS = ['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since']

/** @fastify/static reads `*` as gzip, even where gzip is refused, and evaluates conditions that these files cannot meet. */
function send({ headers }: FastifyRequest, reply: FastifyReply, name: string): FastifyReply {
  for (const condition of CONDITIONS) delete headers[condition]
  const accepted = headers['accept-encoding']?.split(',') ?? []
  headers['accept-encoding'] = accepted.filter((one) => /^\s*(?:br|gzip)\s*(?:;|$)/i.test(one)).join()
  return reply.sendFile(name)
}

/** Clients share one copy of each file. Otherwise, one that does not read would keep its own copy, and a file open. */
function fromMemory(publicUrl: string) {
  const copies = new Map<string, Buffer>()
  return async (request: FastifyRequest, reply: FastifyReply, payload: unknown) => {
    if (!(payload instanceof ReadStream)) return payload
    const { url = '' } = request.routeOptions
    const encoding = String(reply.getHeader('content-encoding'))
    const key = String(payload.path)
    let copy = copies.get(key) ?? (await buffer(payload))
    payload.destroy()
    if (!copies.has(key) && url.startsWith('/docs')) copy = await withOrigin(copy, encoding, publicUrl)
    copies.set(key, copy)
    reply.header('content-length', copy.length)
    return copy
  }
}

const CODECS: Record<
  string,
  [decode: (bytes: Buffer) => Promise<Buffer>, encode: (bytes: Buffer) => Promise<Buffer>]
> = {
  br: [promisify(brotliDecompress), promisify(brotliCompress)],
  gzip: [promisify(gunzip), promisify(gzip)],
}

async function withOrigin(bytes: Buffer, encoding: string, origin: string): Promise<Buffer> {
  const [decode, encode] = CODECS[encoding] ?? []
  const text = (decode ? await decode(bytes) : bytes).toString().replaceAll(PLACEHOLDER, origin)
  return encode ? await encode(Buffer.from(text)) : Buffer.from(text)
}

/** The name of RFC 9239. @fastify/static uses the old one. */
async function nameScripts(_request: FastifyRequest, reply: FastifyReply, payload: unknown) {
  const type = String(reply.getHeader('content-type'))
  if (type.startsWith('application/javascript')) reply.type('text/javascript; charset=utf-8')
  return payload
}

export const pageFilesPlugin = fp(files, { name: 'page-files' })
export const pagesPlugin = fp(plugin, {
  name: 'pages',
  dependencies: ['public-guard', 'page-files'],
  encapsulate: true,
})
