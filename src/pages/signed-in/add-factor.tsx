import { generate } from 'lean-qr'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import type { Change } from '../outcome.tsx'
import { CopyButton, Dialog, StepTitle } from '../parts.tsx'
import { canUsePasskeys, makePasskey, stopAsking } from '../passkeys.ts'
import { useReload } from '../queries.tsx'
import { passkeyMark } from '../remembered.ts'
import type { NewAuthenticator, SecondFactors } from '../routes.ts'
import { browserNameOf } from './browser-name.ts'
import { type Asked, DialogButton } from './dialog-button.tsx'
import { MailboxProof, needsMailCode } from './mailbox-proof.tsx'
import { keepCodes } from './recovery-codes.tsx'

const ADDED = "Second factor added. You're signed out everywhere else."

interface Props {
  email: string
  factors: SecondFactors
  change: Change
  onAdded: () => void
}

/** Adds a second factor. The first one can require an emailed code. */
export function AddFactor({ email, factors, change, onAdded }: Props) {
  const [mailCode, setMailCode] = useState<string | undefined>()
  /** An app whose setup has started. */
  const begun = useRef<NewAuthenticator | undefined>(undefined)
  const [app, setApp] = useState<NewAuthenticator | null>(null)
  const reload = useReload()
  const { run, isBusy, forget } = change
  const isAble = canUsePasskeys()
  const isFirst = factors.secondFactors.length === 0
  const size = isFirst ? undefined : 'small'

  const begin = (body: { mailCode: string | undefined }) => call('POST /auth/second-factors/totp', { body })
  /** Starting an app's setup checks the code without consuming it, before a device creates a passkey. */
  async function prove(code: string): Promise<void> {
    begun.current = await begin({ mailCode: code })
    setMailCode(code)
  }
  async function chooseApp(): Promise<void> {
    setApp(begun.current ?? (await begin({ mailCode }).catch(refuse)))
    begun.current = undefined
  }
  function cancelApp(): void {
    forget()
    setApp(null)
  }
  async function add(request: Parameters<typeof keepCodes>[1]): Promise<string> {
    await keepCodes(ADDED, request.catch(refuse))
    setApp(null)
    onAdded()
    return ADDED
  }
  /** The code may have expired in the meantime. */
  function refuse(error: unknown): never {
    if (mailCode === undefined || !needsMailCode(error)) throw error
    setMailCode(undefined)
    setApp(null)
    throw new ApiError(
      error.code,
      'The emailed code has expired. If your device already created a passkey, create it again: the new one replaces it.',
    )
  }

  if (factors.mailCodeRequired && mailCode === undefined)
    return (
      <>
        <p>
          To add one, enter a code that we email to <strong>{email}</strong>.
        </p>
        <MailboxProof use="factor" onStale={() => reload('GET /auth/second-factors')} onGiven={prove} />
      </>
    )
  return (
    <>
      {mailCode && <StepTitle>Choose your second factor</StepTitle>}
      {isFirst && (
        <p>
          With a passkey, your device verifies you with your fingerprint, face, or PIN. An authenticator app
          on your phone shows a 6-digit code that changes every 30 seconds.
        </p>
      )}
      {!isAble && (
        <p class="quiet">
          This browser doesn't support passkeys at this address. To add one, use a different browser.
        </p>
      )}
      <div class="choices">
        {isAble && (
          <DialogButton
            class={size ?? 'primary'}
            title="Add a passkey"
            change={change}
            dialog={(form) => <AddPasskey {...form} mailCode={mailCode} add={add} />}
          >
            Add a passkey
          </DialogButton>
        )}
        <button type="button" class={size} aria-disabled={isBusy} onClick={() => run(chooseApp)}>
          Add an app
        </button>
      </div>
      {app && (
        <Dialog title="Add an authenticator app" onClose={cancelApp}>
          <SetUpAuthenticator added={app} change={change} onCancel={cancelApp} add={add} />
        </Dialog>
      )}
    </>
  )
}

/** A form in the dialog. `add` returns what was done. */
interface Step extends Asked {
  add: (request: Parameters<typeof keepCodes>[1]) => Promise<string>
}

/** Creates a passkey in the browser's dialog, then adds it. */
function AddPasskey({ mailCode, add, ...form }: Step & { mailCode: string | undefined }) {
  const [isCancelled, setCancelled] = useState(false)
  useEffect(() => stopAsking, [])

  async function create({ name }: Values): Promise<string | undefined> {
    setCancelled(false)
    const { passkeyOptions } = await call('POST /auth/second-factors/passkeys/options')
    const response = await makePasskey(passkeyOptions)
    setCancelled(!response)
    if (!response) return
    const body = { response, name, mailCode }
    const done = await add(call('POST /auth/second-factors/passkeys', { body }))
    passkeyMark.set(true)
    return done
  }

  return (
    <>
      <Form {...form} action="Create passkey" onSubmit={create}>
        <Field
          label="Name"
          name="name"
          value={browserNameOf(navigator.userAgent) ?? 'My device'}
          hint="Helps you recognize it in the list."
          hasFocus
        />
      </Form>
      <p role="status" class="quiet">
        {isCancelled && 'No passkey was created.'}
      </p>
    </>
  )
}

/** Shows the secret of an app that is inactive until its first code, which this verifies. */
function SetUpAuthenticator({ added, add, ...form }: Step & { added: NewAuthenticator }) {
  const { id, secret, uri } = added
  return (
    <>
      <p>
        Scan this QR code with your app, or enter the secret. Is the app on this device?{' '}
        <a href={uri}>Open it there</a>.
      </p>
      <QrCode text={uri} />
      <p class="secret">
        <code>{secret.match(/.{1,4}/g)?.join(' ')}</code> <CopyButton text={secret} what="the secret" />
      </p>
      <Form
        {...form}
        action="Add the app"
        onSubmit={({ code }) =>
          add(call('POST /auth/second-factors/totp/:id/confirm', { id, body: { code: code.trim() } }))
        }
      >
        <Field
          label="Code"
          name="code"
          autoComplete="one-time-code"
          isNumeric
          hint="The 6-digit code that the app shows now."
          hasFocus
        />
      </Form>
    </>
  )
}

/** The quiet zone around a code (ISO/IEC 18004). */
const MARGIN = 4
/** Smaller modules are hard to scan from a screen. */
const MODULE_PX = 3

/** Dark on white in both themes, because not every scanner reads inverted codes. */
function QrCode({ text }: { text: string }) {
  const { size, get } = generate(text)
  const width = size + 2 * MARGIN
  const places = Array.from({ length: size * size }, (_, n) => [n % size, Math.floor(n / size)] as const)
  const path = places.filter(([x, y]) => get(x, y)).map(([x, y]) => `M${x + MARGIN} ${y + MARGIN}h1v1h-1z`)
  return (
    <svg
      class="qr"
      width={width * MODULE_PX}
      viewBox={`0 0 ${width} ${width}`}
      role="img"
      aria-label="QR code of the secret below"
    >
      <rect width={width} height={width} fill="#fff" />
      <path d={path.join('')} fill="#000" />
    </svg>
  )
}
