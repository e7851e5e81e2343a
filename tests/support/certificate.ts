import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openFolder } from './cleanup.ts'

/** A self-signed certificate for a server on loopback. Its key is in the neighboring file, where HAProxy finds it. */
export async function makeCertificate(
  address = '127.0.0.1',
  kind = ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256'],
) {
  const file = join(await openFolder(), 'certificate.pem')
  const ofKey = ['-newkey', ...kind, '-nodes', '-keyout', `${file}.key`]
  const subject = ['-subj', '/CN=localhost', '-addext', `subjectAltName=IP:${address}`, '-days', '1']
  await promisify(execFile)('openssl', ['req', '-x509', ...ofKey, ...subject, '-out', file])
  return { file, cert: await readFile(file), key: await readFile(`${file}.key`) }
}
