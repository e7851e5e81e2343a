import type { ComponentChildren } from 'preact'
import { Mark } from '../mark.tsx'
import { Title } from '../parts.tsx'

/** What the pages without a sign-in look like: one card. */
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

/** What is said when something has succeeded. It is read out. */
export function Done({ children }: { children: ComponentChildren }) {
  return (
    <div class="done" role="status">
      {children}
    </div>
  )
}
