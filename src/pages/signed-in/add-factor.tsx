import { generate } from 'lean-qr'
import { useEffect, useRef, useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Field, Form, type Values } from '../form.tsx'
import type { Change } from '../outcome.tsx'
import { CopyButton, Dialog } from '../parts.tsx'
import { canUsePasskeys, makePasskey, stopAsking } from '../passkeys.ts'
import { passkeyMark } from '../remembered.ts'
import type { NewAuthenticator } from '../routes.ts'
import { browserNameOf } from './browser-name.ts'
import type { Asked } from './dialog-button.tsx'
import { keepCodes } from './recovery-codes.tsx'

const ADDED = "Second factor added. You're signed out everywhere else."

interface Props {
  change: Change
  /** The emailed code, if the member needs one. */
  mailCode?: string | undefined
  /** An app whose setup already started. */
  begun?: NewAuthenticator | undefined
  /** Describes both kinds. */
  isFirst?: boolean
  onAdded: () => void
  /** Gets errors, which can be about the emailed code. */
  onRefused?: (error: unknown) => never
}

export function AddFactor({ change, mailCode, begun, isFirst, onAdded, onRefused }: Props) {
  const unused = useRef(begun)
  const [chosen, setChosen] = useState<'passkey' | NewAuthenticator | null>(null)
  const { run, isBusy, forget } = change
  const isAble = canUsePasskeys()
  const size = isFirst ? undefined : 'small'

  function choose(kind: 'passkey' | null): void {
    forget()
    setChosen(kind)
  }
  async function chooseApp(): Promise<void> {
    const body = { mailCode }
    const app = unused.current ?? (await call('POST /auth/second-factors/totp', { body }).catch(onRefused))
    unused.current = undefined
    setChosen(app)
  }
  const step: Step = {
    change,
    onCancel: () => choose(null),
    async add(request) {
      await keepCodes(ADDED, request.catch(onRefused))
      setChosen(null)
      onAdded()
      return ADDED
    },
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
        <p class="hint">
          This browser doesn't support passkeys at this address. To add one, use a different browser.
        </p>
      )}
      <div class="choices">
        {isAble && (
          <button
            type="button"
            class={size ?? 'primary'}
            aria-disabled={isBusy}
            onClick={() => choose('passkey')}
          >
            Add a passkey
          </button>
        )}
        <button type="button" class={size} aria-disabled={isBusy} onClick={() => run(chooseApp)}>
          Add an app
        </button>
      </div>
      {chosen && (
        <Dialog
          title={chosen === 'passkey' ? 'Add a passkey' : 'Add an authenticator app'}
          onClose={step.onCancel}
        >
          {chosen === 'passkey' ? (
            <AddPasskey mailCode={mailCode} {...step} />
          ) : (
            <SetUpAuthenticator added={chosen} {...step} />
          )}
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
