import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Time } from '../parts.tsx'
import type { Answer, AuditEntry } from '../routes.ts'
import { detailsOf, isOfFactor, whatOf, whyOf } from './entry-words.ts'
import { ListHead } from './list-head.tsx'

type Page = Answer<'GET /auth/audit'>

/** Heights of pages that the user left. The browser lays out only pages in view, but Back needs the height of each. */
const heights = new WeakMap<Page, number>()

export function EntryTable({ pages }: { pages: Page[] }) {
  // One page at a time, so that thousands of rows do not block the browser. An appended page is drawn immediately.
  const [drawn, setDrawn] = useState(0)
  useEffect(() => {
    if (drawn >= pages.length) return
    const timer = setTimeout(() => setDrawn(drawn + 1))
    return () => clearTimeout(timer)
  }, [drawn, pages.length])
  return (
    <table class="list trail" aria-labelledby="trail">
      <ListHead columns={{ When: undefined, Who: undefined, What: undefined }} />
      {pages.map(
        (page, n) =>
          (n <= drawn || heights.has(page)) && (
            <Rows key={page.entries[0]?.id} page={page} isDrawn={n <= drawn} />
          ),
      )}
    </table>
  )
}

/**
 * Memoized: appending a page must not render thousands of rows again. After Back, pages in view are drawn first, and the others
 * keep their height, so that the browser returns to the same place.
 */
function Rows({ page, isDrawn }: { page: Page; isDrawn: boolean }) {
  const body = useRef<HTMLTableSectionElement>(null)
  const [isInView, setInView] = useState(false)
  const isShown = isDrawn || isInView
  useEffect(() => {
    if (isShown || !body.current) return
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && setInView(true))
    observer.observe(body.current)
    return () => observer.disconnect()
  }, [isShown])
  useLayoutEffect(
    () => () => {
      if (body.current) heights.set(page, body.current.getBoundingClientRect().height)
    },
    [page],
  )
  return useMemo(() => {
    const height = heights.get(page)
    return (
      <tbody ref={body} style={height ? { containIntrinsicBlockSize: `auto ${height}px` } : undefined}>
        {isShown ? (
          page.entries.map((entry) => <Row key={entry.id} entry={entry} names={page.names} />)
        ) : (
          <tr style={{ height: `${height}px` }} />
        )}
      </tbody>
    )
  }, [page, isShown])
}

function Row({ entry, names }: { entry: AuditEntry; names: Page['names'] }) {
  const { occurredAt, actor, action, subject, ipAddress } = entry
  const [before, after] = whatOf(entry)
  const asides = [detailsOf(entry), whyOf(entry)].filter((text) => text !== null)
  return (
    <tr class="list-row">
      <td class="trail-when">
        <Time at={occurredAt} />
        {ipAddress && <span class="quiet trail-aside"> from {ipAddress}</span>}
      </td>
      <td class="trail-who">{actor === null ? 'Someone' : <Who id={actor} name={names[actor]} />}</td>
      <td>
        {before}
        {subject !== null && subject !== actor && !isOfFactor(action) && (
          <>
            {' '}
            <Who id={subject} name={names[subject]} />
          </>
        )}
        {after && ` ${after}`}
        {asides.map((text) => (
          <span key={text} class="quiet trail-aside">
            {text}
          </span>
        ))}
      </td>
    </tr>
  )
}

/** A member's name, an email, or the ID of a deleted member. */
function Who({ id, name }: { id: string; name: string | undefined }) {
  if (id === 'operator') return <>an operator</>
  // Names can change, and page translators replace text nodes.
  if (name !== undefined)
    return (
      <span title={id} translate={false}>
        {name}
      </span>
    )
  return id.includes('@') ? id : <code translate={false}>{id}</code>
}
