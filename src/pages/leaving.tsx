import { useLayoutEffect, useState } from 'preact/hooks'
import { Form } from './form.tsx'
import { Dialog } from './parts.tsx'

/** Asks before leaving a page that shows a secret once. The router cannot block navigation, so this runs first. */

/** Newest last. */
let losses: { loss: string; url: string }[] = []
let tell: (isLosing: boolean) => void = () => {}
let ask: (leave: () => void) => void = (leave) => leave()

/** While `loss` is set, leaving the page requires confirmation. */
export function useLoss(loss: string | null): void {
  // Before the next event, which could leave the page.
  useLayoutEffect(() => {
    if (loss === null) return
    const one = { loss, url: location.href }
    losses.push(one)
    tell(true)
    const warn = (event: Event) => event.preventDefault()
    addEventListener('beforeunload', warn)
    return () => {
      losses = losses.filter((other) => other !== one)
      tell(losses.length > 0)
      removeEventListener('beforeunload', warn)
    }
  }, [loss])
}

// Runs before the router's listeners, which are added when it renders.
addEventListener('popstate', (event) => {
  const { url } = losses.at(-1) ?? {}
  if (url === undefined || location.pathname === new URL(url).pathname) return
  // The browser has already gone back, so add the entry again.
  event.stopImmediatePropagation()
  history.pushState(null, '', url)
  ask(() => history.back())
})

addEventListener(
  'click',
  (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    const isElsewhere = link && !link.target && !link.download && link.pathname !== location.pathname
    if (!isElsewhere || losses.length === 0) return
    event.preventDefault()
    event.stopImmediatePropagation()
    ask(() => link.click())
  },
  { capture: true },
)

/** Runs `act`, which leaves the page, after a confirmation if there is something to lose. */
export function leave(act: () => void): void {
  if (losses.length === 0) act()
  else ask(act)
}

/** Whether the page has something to lose, and the dialog that asks. */
export function useLeaving() {
  const [isLosing, setLosing] = useState(false)
  const [go, setGo] = useState<(() => void) | null>(null)
  useLayoutEffect(() => {
    tell = setLosing
    ask = (act) => setGo(() => act)
  }, [])

  const stay = () => setGo(null)
  async function confirm(): Promise<void> {
    stay()
    losses = []
    tell(false)
    go?.()
  }
  const dialog = go && (
    <Dialog title="Leave this page?" onClose={stay}>
      <Form action="Leave" isDanger onSubmit={confirm} onCancel={stay} cancel="Stay">
        <p>{losses.at(-1)?.loss}</p>
      </Form>
    </Dialog>
  )
  return { isLosing, dialog }
}
