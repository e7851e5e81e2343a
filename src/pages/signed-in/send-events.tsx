import { useQueryClient } from '@tanstack/preact-query'
import type { ComponentChildren } from 'preact'
import { ApiError, call, invalid } from '../api.ts'
import { CodeTabs } from '../code-tabs.tsx'
import { Field, Form, type Values } from '../form.tsx'
import { Copied, Section, Time } from '../parts.tsx'
import type { Refusal, SecretStatus, Session } from '../routes.ts'
import { EXAMPLES } from './example-programs.ts'
import { adviceFor } from './received-events.tsx'

export const INGEST_URL = `${location.origin}/api/events/ingest`

interface SendProps {
  session: Session
  /** While it is shown, the command and the test event have it. */
  secret?: string | undefined
  canTest?: boolean | undefined
  children?: ComponentChildren
}

/** Programs that send an event, and a test event from this page. */
export function Send({ session, secret, canTest = false, children }: SendProps) {
  const { companyId } = session.accessContext
  const codes = EXAMPLES.map(({ language, file, run, write }) => ({
    language,
    source: write({ companyId, url: INGEST_URL }),
    lead: (
      <p class="quiet">
        Save this as <code>{file}</code>, then run{' '}
        {secret ? (
          <Copied text={`SIGNING_SECRET=${secret} ${run}`} what="the command" />
        ) : (
          <code>SIGNING_SECRET=whsec_… {run}</code>
        )}
      </p>
    ),
  }))
  return (
    <Section id="send" title="Send events">
      <div class="examples">
        <h3 id="examples">From your server</h3>
        <CodeTabs codes={codes} labelledBy="examples" />
      </div>
      {canTest && <TestEvent companyId={companyId} secret={secret} />}
      {children}
    </Section>
  )
}

const TEST_EVENT = { type: 'test.event', data: { from: 'developer page' } }

/** Signed in the browser, with the secret that is shown or pasted. Neither is stored. */
function TestEvent({ companyId, secret }: { companyId: string; secret: string | undefined }) {
  const queries = useQueryClient()

  async function send(typed: Values): Promise<string> {
    const id = `msg_${crypto.randomUUID()}`
    const timestamp = String(Math.floor(Date.now() / 1000))
    const text = `${id}.${timestamp}.${JSON.stringify(TEST_EVENT)}`
    const headers = {
      'x-company-id': companyId,
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': await sign(secret ?? typed.secret.trim(), text),
    }
    try {
      await call('POST /events/ingest', { body: TEST_EVENT, headers })
      return `Accepted with status 202 as ${id}.`
    } catch (error) {
      if (!(error instanceof ApiError) || error.status === 0) throw error
      const why =
        error.code === 'invalid_signature'
          ? "This isn't the current secret, or this device's clock is wrong."
          : error.message
      throw new ApiError(error.code, `Refused with status ${error.status}. ${why}`)
    } finally {
      queries.invalidateQueries()
    }
  }
  return (
    <div class="examples">
      <h3>From this page</h3>
      <Form action="Send test event" isSecond onSubmit={send}>
        {!secret && (
          <Field
            label="Signing secret"
            name="secret"
            type="password"
            hint="This page signs with it and doesn't store it."
          />
        )}
      </Form>
    </div>
  )
}

async function sign(secret: string, text: string): Promise<string> {
  const [, base64] = /^whsec_([A-Za-z0-9+/]{43}=)$/.exec(secret) ?? []
  if (!base64) throw invalid({ secret: 'must start with whsec_ and have 50 characters' })
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', bytes, hmac, false, ['sign'])
  const mac = await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(text))
  return `v1,${btoa(String.fromCharCode(...new Uint8Array(mac)))}`
}

/** The last event that was accepted with the current secret, and the last one that was refused since its creation. */
export function LastEvent({ status, refusals }: { status: SecretStatus; refusals: Refusal[] }) {
  const { createdAt, lastUsedAt, hint } = status
  // Refusals are sorted, latest first.
  const refusal = refusals.find(({ lastAt }) => createdAt !== null && lastAt >= createdAt)
  const isRefused = refusal && (lastUsedAt === null || refusal.lastAt >= lastUsedAt)
  return (
    <div role="status" class={isRefused ? 'box' : lastUsedAt ? 'done' : undefined}>
      {lastUsedAt && (
        <p class="tick">
          Last event received <Time at={lastUsedAt} />.
        </p>
      )}
      {!lastUsedAt && !refusal && <p class="quiet">Waiting for the first event signed with the secret…</p>}
      {refusal && (
        <p class={isRefused ? 'error' : 'quiet'}>
          Last refused <Time at={refusal.lastAt} />. {adviceFor(refusal, hint)}
        </p>
      )}
    </div>
  )
}
