import { BlockList, isIP } from 'node:net'

export function list(text: string | undefined): string[] {
  return (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}

export function originOf(text: string): string | null {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) return null
  return url.href === `${url.origin}/` ? url.origin : null
}

function isPlainUrl(text: string): boolean {
  const { protocol = '', origin = '', pathname = '' } = URL.parse(text) ?? {}
  return /^https?:$/.test(protocol) && `${origin}${pathname}`.replace(/\/$/, '') === text
}

function readDatabaseUrl(url: string) {
  const [, authority = '', query = ''] = /^\w+:\/\/([^/?#]*)[^?#]*\??([^#]*)/.exec(url) ?? []
  const host = authority.slice(authority.lastIndexOf('@') + 1).replace(/%2c/gi, ',')
  return { host, parameters: new URLSearchParams(query) }
}

function namesOneHost(url: string): boolean {
  const { host, parameters } = readDatabaseUrl(url)
  const isOne = (name: string) => /^[^,]*$/.test(parameters.getAll(name).join(','))
  return /^(?:\[[^\]]*\]|[^,:]*)(?::\d*)?$/.test(host) && isOne('host') && isOne('port')
}

/** True if the connection stays on this machine, or if TLS verifies the server. */
export function isPrivateDatabase(url: string, defaultHost: string): boolean {
  const { host, parameters } = readDatabaseUrl(url)
  const name = parameters.get('host') || host.replace(/:\d*$/, '').replace(/%2f/gi, '/') || defaultHost
  const modes = parameters.getAll('sslmode')
  const isVerified = /^verify-(?:full|ca)$/.test(modes.at(-1) ?? '')
  return isVerified || name.startsWith('/') || isLoopbackHost(name)
}

export function isLoopback(url: string): boolean {
  return isLoopbackHost(URL.parse(url)?.hostname ?? '')
}

function isLoopbackHost(host: string): boolean {
  return /^(?:(?:.+\.)?localhost|127\.\d+\.\d+\.\d+|::1|\[::1\])$/i.test(host)
}

export function isBelow(origin: string, domain: string): boolean {
  const hostname = URL.parse(origin)?.hostname ?? ''
  return hostname === domain || hostname.endsWith(`.${domain}`)
}

function isCidr(text: string): boolean {
  const [ipAddress = '', prefix = '0', ...rest] = text.split('/')
  const bits = isIP(ipAddress) === 4 ? 32 : 128
  return isIP(ipAddress) > 0 && /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits && rest.length === 0
}

/** No network of proxies contains two of these. */
const FAR_APART = ['::ffff:1.1.1.1', '::ffff:129.0.0.1', '2001:db8::1', '3fff::1']

function containsClients(cidr: string): boolean {
  const networks = toNetworks([cidr])
  const inside = FAR_APART.filter((ipAddress) => networks.check(ipAddress, 'ipv6'))
  return Number(cidr.split('/')[1] ?? 128) < 7 || inside.length > 1
}

/** Also matches IPv4 addresses in IPv6 form. The CIDRs must be valid. */
export function toNetworks(cidrs: string[]): BlockList {
  const networks = new BlockList()
  for (const cidr of cidrs) {
    const [ipAddress = '', prefix] = cidr.split('/')
    const [family, bits] = isIP(ipAddress) === 6 ? (['ipv6', 128] as const) : (['ipv4', 32] as const)
    networks.addSubnet(ipAddress, prefix === undefined ? bits : Number(prefix), family)
  }
  return networks
}

/** 256 bits. The first key of a list seals and signs; all keys open and verify. */
export interface MasterKey {
  id: string
  key: Buffer
}

const MASTER_KEY = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/]{43}=)$/

function areMasterKeys(entries: string[]): boolean {
  const ids = new Set(entries.map(idOf))
  return entries.every((entry) => MASTER_KEY.test(entry)) && ids.size === entries.length
}

export function toMasterKey(entry: string): MasterKey {
  return { id: idOf(entry), key: Buffer.from(entry.slice(idOf(entry).length + 1), 'base64') }
}

function idOf(masterKey: string): string {
  return masterKey.split(':', 1)[0] ?? ''
}

/** `email` or `Name <email>` (RFC 5322, section 3.4), without control characters, which could start a header. */
const SENDER = /^(?:([^\s<>@]+@[^\s<>@]+)|([^\p{Cc}<>]*)<([^\s<>@]+@[^\s<>@]+)>)$/u

/** The name loses its quotes. `text` must match `SENDER`. */
export function toSender(text: string): { name: string; address: string } {
  const [, bare, phrase = '', address = ''] = SENDER.exec(text) ?? []
  if (bare !== undefined) return { name: '', address: bare }
  const [, quoted] = /^"((?:[^"\\]|\\.)*)"$/.exec(phrase.trim()) ?? []
  return { name: quoted?.replace(/\\(.)/g, '$1') ?? phrase.trim(), address }
}

export const WITHOUT_TLS = '?requireTLS=false'

function isSmtpUrl(text: string): boolean {
  const { protocol = '', hostname = '', search = '' } = URL.parse(text) ?? {}
  return /^smtps?:$/.test(protocol) && hostname !== '' && (search === '' || search === WITHOUT_TLS)
}

export function mailDomainOf(publicUrl: string): string {
  const hostname = URL.parse(publicUrl)?.hostname ?? ''
  return hostname === '' || isIP(hostname.replace(/^\[|\]$/g, '')) ? 'localhost' : hostname
}

type Form = [isValid: (text: string) => boolean, must: string]

const HOST_NAME: Form = [
  (name) => /^(?=.{1,253}$)[a-z0-9-]+(?:\.[a-z0-9-]+)*$/.test(name),
  'be a host name in lower case, such as example.com',
]
/** Catches most passwords with a bare `/`, `?`, or `#`, which end the host of a URL. */
const ENCODED: Form = [
  (url) => !url.includes('#') && !/^\w+:\/\/[^/?#]*[/?][^=]*@/.test(url),
  'have special characters in its user and password percent-encoded, such as %23 for #',
]
const isOrigin = (url: string) => originOf(url) !== null

export const FORMS: [name: string, ...Form][] = [
  ['DATABASE_URL', ...ENCODED],
  ['SMTP_URL', ...ENCODED],
  [
    'DATABASE_URL',
    (url) => /^postgres(ql)?:\/\//.test(url),
    'be a URL such as postgres://user:password@host/name',
  ],
  [
    'MASTER_KEYS',
    (keys) => areMasterKeys(list(keys)),
    'be a comma-separated list with unique ids, such as k1:KEY, where KEY is the output of `openssl rand -base64 32`',
  ],
  ['PUBLIC_URL', isOrigin, 'be an http(s) URL without a path, such as https://auth.example.com'],
  ['PAGES_URL', isOrigin, 'be an http(s) URL without a path, such as https://app.example.com'],
  ['PASSKEY_RP_ID', ...HOST_NAME],
  ['CELL', (name) => /^[a-z0-9]{1,8}$/.test(name), 'be 1 to 8 letters a-z and digits, such as eu1'],
  [
    'SMTP_URL',
    isSmtpUrl,
    'be an smtp or smtps URL with no parameter except ?requireTLS=false, such as smtp://user:password@host:587',
  ],
  ['SMTP_NAME', ...HOST_NAME],
  [
    'MAIL_FROM',
    (text) => SENDER.test(text),
    'be an email address, such as no-reply@example.com or Acme <no-reply@example.com>',
  ],
  [
    'ALLOW_PLAINTEXT',
    (words) => list(words).every((word) => word === 'database' || word === 'smtp'),
    'be database, smtp, or both, such as database,smtp',
  ],
  [
    'BREACHED_PASSWORDS_URL',
    isPlainUrl,
    'be an http(s) URL without a user, a query, or a final slash, such as https://api.pwnedpasswords.com/range',
  ],
  [
    'DASHBOARD_ORIGINS',
    (origins) => list(origins).every((origin) => originOf(origin) === origin && !origin.includes('*')),
    'be a comma-separated list of origins without wildcards, such as https://app.example.com',
  ],
  [
    'TRUST_PROXY',
    (networks) => list(networks).every(isCidr),
    'be a comma-separated list of IP addresses or CIDRs, such as 10.0.0.0/8',
  ],
  [
    'DATABASE_URL',
    namesOneHost,
    'name one host and one port, such as 127.0.0.1:5432. For several servers, name an HAProxy: a client could choose an old leader that still reports itself as writable',
  ],
  [
    'TRUST_PROXY',
    (networks) => !list(networks).some(containsClients),
    'contain only the networks of your proxies, such as 10.0.0.0/8. A network as large as /0 would let each client choose its own IP address',
  ],
]
