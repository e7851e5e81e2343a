import type { ComponentChildren } from 'preact'
import { Mark } from '../mark.tsx'
import { Title } from '../parts.tsx'

interface Props {
  title: string
  notice?: string | null
  children: ComponentChildren
}

/** The layout of pages without a sign-in: a card. */
export function Frame({ title, notice, children }: Props) {
  return (
    <main class="card">
      <p class="brand" translate={false}>
        <Mark /> gatehouse
      </p>
      <Title>{title}</Title>
      {notice && (
        <p class="notice" role="status">
          {notice}
        </p>
      )}
      {children}
    </main>
  )
}
