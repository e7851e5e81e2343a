import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type Faults, Form, type Values } from '../form.tsx'

interface ChangeProps {
  action: string
  done: string
  submit: (values: Values) => Promise<unknown>
  children: (faults: Faults) => ComponentChildren
}

/** A form that resets and shows a message after success. */
export function Change({ action, done, submit, children }: ChangeProps) {
  const [turn, setTurn] = useState(0)
  return (
    <>
      <Form
        key={turn}
        action={action}
        onSubmit={async (values) => {
          await submit(values)
          setTurn(turn + 1)
        }}
      >
        {children}
      </Form>
      <p role="status" class="done">
        {turn > 0 && done}
      </p>
    </>
  )
}
