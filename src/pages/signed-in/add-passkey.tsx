import { useEffect, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import type { Change } from '../outcome.tsx'
import { makePasskey, stopAsking } from '../passkeys.ts'
import { passkeyMark } from '../remembered.ts'
import { browserNameOf } from './browser-name.ts'
import type { keepCodes } from './recovery-codes.tsx'

/** A form in the dialog. `add` returns what was done, unless the emailed code shows an error. */
export interface Step {
  change: Change
  onCancel: () => void
  add: (request: Parameters<typeof keepCodes>[1]) => Promise<string | undefined>
}

/** Creates a passkey in the browser's dialog, then adds it. */
export function AddPasskey({ mailCode, add, ...form }: Step & { mailCode: string | undefined }) {
  const [isCancelled, setCancelled] = useState(false)
  useEffect(() => stopAsking, [])

  async function create({ name }: Values): Promise<string | undefined> {
    setCancelled(false)
    const { passkeyOptions } = await call('POST /auth/second-factors/passkeys/options')
    const response = await makePasskey(passkeyOptions)
    if (!response) {
      setCancelled(true)
      return
    }
    const body = { response, name, mailCode }
    const done = await add(call('POST /auth/second-factors/passkeys', { body }))
    if (done) passkeyMark.set(true)
    return done
  }

  return (
    <>
      <Form {...form} action="Create passkey" onSubmit={create}>
        {(faults) => (
          <Field
            label="Name"
            name="name"
            value={browserNameOf(navigator.userAgent) ?? 'My device'}
            hint="Helps you recognize it in the list."
            hasFocus
            error={faults['name']}
          />
        )}
      </Form>
      <p role="status" class="quiet">
        {isCancelled && 'No passkey was created.'}
      </p>
    </>
  )
}
