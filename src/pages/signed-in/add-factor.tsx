import { generate } from 'lean-qr'
import { useEffect, useRef, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import type { Change } from '../outcome.tsx'
import { CopyButton, Dialog } from '../parts.tsx'
import { canUsePasskeys, makePasskey, stopAsking } from '../passkeys.ts'
import { passkeyMark } from '../remembered.ts'
import type { NewAuthenticator, SecondFactors } from '../routes.ts'
import { browserNameOf } from './browser-name.ts'
import { type Asked, DialogButton } from './dialog-button.tsx'
import { useMailProof } from './mailbox-proof.tsx'
import { keepCodes } from './recovery-codes.tsx'

const ADDED = "Second factor added. You're signed out everywhere else."

interface Props {
  factors: SecondFactors
  change: Change
  onAdded: () => void
}

/** Adds a second factor. The first one can require an emailed code. */
export function AddFactor({ factors, change, onAdded }: Props) {
  /** Only an added factor consumes it, so a user who started with one kind can switch to the other. */
  const mailCode = useRef<string | undefined>(undefined)
  const { prove, dialog } = useMailProof('factor')
  /** An app whose setup has started. */
  const [app, setApp] = useState<NewAuthenticator | null>(null)
  const { run, isBusy, forget } = change
  const isAble = canUsePasskeys()
  const isFirst = factors.secondFactors.length === 0
  const size = isFirst ? undefined : 'small'

  async function begin(code = mailCode.current): Promise<NewAuthenticator> {
    const begun = await call('POST /auth/second-factors/totp', { body: { mailCode: code } })
    mailCode.current = code
    return begun
  }
  async function chooseApp(): Promise<void> {
    setApp(await prove('an app', begin))
  }
  function cancelApp(): void {
    forget()
    setApp(null)
  }
  async function add(request: Parameters<typeof keepCodes>[1]): Promise<string> {
    await keepCodes(ADDED, request)
    setApp(null)
    onAdded()
    return ADDED
  }
  const addApp = (id: string, code: string) =>
    add(call('POST /auth/second-factors/totp/:id/confirm', { id, body: { code } }))
  /** Null if the user cancels it in the browser's dialog. */
  async function addPasskey(name: string): Promise<string | null> {
    // Starting an app's setup checks the code without consuming it, before the device creates a passkey.
    if (factors.mailCodeRequired) await prove('a passkey', begin)
    const { passkeyOptions } = await call('POST /auth/second-factors/passkeys/options')
    const response = await makePasskey(passkeyOptions)
    if (!response) return null
    // The code may have expired in the meantime.
    const request = prove('a passkey', (code = mailCode.current) =>
      call('POST /auth/second-factors/passkeys', { body: { response, name, mailCode: code } }),
    )
    const done = await add(request)
    passkeyMark.set(true)
    return done
  }

  return (
    <>
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
            dialog={(form) => <AddPasskey {...form} add={addPasskey} />}
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
          <SetUpAuthenticator added={app} change={change} onCancel={cancelApp} add={addApp} />
        </Dialog>
      )}
      {dialog}
    </>
  )
}

function AddPasskey({ add, ...form }: Asked & { add: (name: string) => Promise<string | null> }) {
  const [isCancelled, setCancelled] = useState(false)
  useEffect(() => stopAsking, [])

  async function create({ name }: Values): Promise<string | null> {
    setCancelled(false)
    const done = await add(name)
    setCancelled(done === null)
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

interface SetUpProps extends Asked {
  added: NewAuthenticator
  add: (id: string, code: string) => Promise<string>
}

/** Shows the secret of an app that is inactive until its first code, which this verifies. */
function SetUpAuthenticator({ added, add, ...form }: SetUpProps) {
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
      <Form {...form} action="Add the app" onSubmit={({ code }) => add(id, code.trim())}>
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
