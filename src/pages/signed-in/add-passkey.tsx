import { useEffect, useState } from 'preact/hooks'
import { type CreationOptions, call, type NewPasskey } from '../api.ts'
import { Field, Form } from '../form.tsx'
import { StepTitle } from '../parts.tsx'
import { makePasskey, stopAsking } from '../passkeys.ts'
import { browserNameOf } from './browser-name.ts'

interface Props {
  mailCode: string | undefined
  onAdded: (recoveryCodes: string[] | undefined) => void
  onRefused: (error: unknown) => never
  onCancel: () => void
}

const PATH = '/auth/second-factors/passkeys'

/** Makes a passkey in a dialog of the browser, and adds it. */
export function AddPasskey({ mailCode, onAdded, onRefused, onCancel }: Props) {
  const [isCancelled, setCancelled] = useState(false)
  useEffect(() => stopAsking, [])

  async function add({ name }: Record<string, string>): Promise<void> {
    setCancelled(false)
    const { passkeyOptions } = await call<CreationOptions>(`${PATH}/options`)
    const response = await makePasskey(passkeyOptions)
    if (!response) return setCancelled(true)
    const body = { response, name, mailCode }
    const { recoveryCodes } = await call<NewPasskey>(PATH, { body }).catch(onRefused)
    onAdded(recoveryCodes)
  }

  return (
    <div class="step">
      <StepTitle>Add a passkey</StepTitle>
      <Form action="Make the passkey" onSubmit={add} onCancel={onCancel}>
        {(fields) => (
          <Field
            label="Name"
            name="name"
            value={browserNameOf(navigator.userAgent) ?? 'My device'}
            hint="By which you know it in the list."
            error={fields['name']}
          />
        )}
      </Form>
      <p role="status" class="quiet">
        {isCancelled && 'No passkey was made.'}
      </p>
    </div>
  )
}
