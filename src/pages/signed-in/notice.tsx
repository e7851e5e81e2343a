import { useEffect, useRef } from 'preact/hooks'

/** A new one each time, though it may say the same. */
export interface Said {
  text: string
  /** What was pressed is still there. */
  keepsFocus?: boolean
}

/** Says what was done, where what had the focus is gone: the focus comes here. */
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
