import type { ComponentChildren } from 'preact'
import { Mark } from '../mark.tsx'
import { Title } from '../parts.tsx'

interface Props {
  title: string
  notice?: string | null
  /** Texts by path, shown last. */
  links?: Record<`/${string}`, string>
  children: ComponentChildren
}

/** The layout of pages without a sign-in: a card. */
export function Frame({ title, notice, links, children }: Props) {
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
      {links && (
        <p class="links">
          {Object.entries(links).map(([path, text]) => (
            <a key={path} href={path}>
              {text}
            </a>
          ))}
        </p>
      )}
    </main>
  )
}
