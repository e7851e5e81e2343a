import type { ComponentChildren } from 'preact'
import { Mark } from '../mark.tsx'
import { Title } from '../parts.tsx'

/** The layout of pages without a sign-in: a card. */
export function Frame({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <main class="card">
      <p class="brand">
        <Mark /> gatehouse
      </p>
      <Title>{title}</Title>
      {children}
    </main>
  )
}

/** A success message. Screen readers announce it. */
export function Done({ children }: { children: ComponentChildren }) {
  return (
    <div class="done" role="status">
      {children}
    </div>
  )
}
