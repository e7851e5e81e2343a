import { createClient } from '../../src/operator/platform.ts'
import type { TestService } from './test-service.ts'

/** Platform services, which check sessions. */

export interface Client {
  id: string
  secret: string
}

export async function addClient(service: TestService, scopes = ['introspect']) {
  const client = await createClient(service.context, { name: 'risk', scopes })
  // Each process reads the clients once a second.
  service.clock.advance(1)
  return client
}

export function basic({ id, secret }: Client): string {
  return `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
}

export const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

export function introspect(service: TestService, client: Client, token: string, at = 0) {
  const body = new URLSearchParams({ token }).toString()
  return service.ask('/introspect', { headers: { ...FORM, authorization: basic(client) }, body, at })
}

export async function addReader(service: TestService) {
  return { authorization: basic(await addClient(service, ['events:read'])) }
}
