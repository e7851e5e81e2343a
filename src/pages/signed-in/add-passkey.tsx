import { useEffect, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import { StepTitle } from '../parts.tsx'
import { makePasskey, stopAsking } from '../passkeys.ts'
import { passkeyMark } from '../remembered.ts'
import { browserNameOf } from './browser-name.ts'

interface Props {
  mailCode: string | undefined
  onAdded: (recoveryCodes: string[] | undefined) => void
  onRefused: (error: unknown) => never
  onCancel: () => void
}

/** Creates a passkey in the browser's dialog, then adds it. */
export function AddPasskey({ mailCode, onAdded, onRefused, onCancel }: Props) {
  const [isCancelled, setCancelled] = useState(false)
  useEffect(() => stopAsking, [])

  async function add({ name }: Values): Promise<void> {
    setCancelled(false)
    const { passkeyOptions } = await call('POST /auth/second-factors/passkeys/options')
    const response = await makePasskey(passkeyOptions)
    if (!response) return setCancelled(true)
    const body = { response, name, mailCode }
    const { recoveryCodes } = await call('POST /auth/second-factors/passkeys', { body }).catch(onRefused)
    passkeyMark.set(true)
    onAdded(recoveryCodes)
  }

  return (
    <div class="step">
      <StepTitle>Add a passkey</StepTitle>
      <Form action="Create passkey" onSubmit={add} onCancel={onCancel}>
        {(faults) => (
          <Field
            label="Name"
            name="name"
            value={browserNameOf(navigator.userAgent) ?? 'My device'}
            hint="Helps you recognize it in the list."
            error={faults['name']}
          />
        )}
      </Form>
      <p role="status" class="quiet">
        {isCancelled && 'No passkey was created.'}
      </p>
    </div>
  )
}
