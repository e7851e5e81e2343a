import { useEffect, useRef } from 'preact/hooks'

/** A new object each time, even for the same text. */
export interface Said {
  text: string
  /** The pressed button still exists. */
  keepsFocus?: boolean
}

/** Confirms an action. It takes the focus if the focused element is gone. */
export function Notice({ said }: { said: Said | null }) {
  const element = useRef<HTMLParagraphElement>(null)
  useEffect(() => {
    if (said && !said.keepsFocus) element.current?.focus()
  }, [said])
  return (
    <p class="done" role="status" ref={element} tabIndex={-1}>
      {said?.text}
    </p>
  )
}
