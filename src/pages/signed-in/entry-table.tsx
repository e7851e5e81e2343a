import { useMemo } from 'preact/hooks'
import { Time } from '../parts.tsx'
import type { AuditEntry } from '../routes.ts'
import { detailsOf, isOfFactor, whatOf, whyOf } from './entry-words.ts'

/** Names by member ID, without deleted members. */
export type Names = Readonly<Record<string, string>>

export function EntryTable({ entries, names }: { entries: AuditEntry[]; names: Names }) {
  return (
    <table class="list trail" aria-labelledby="trail">
      <thead class="list-head">
        <tr>
          <th scope="col" class="trail-when">
            When
          </th>
          <th scope="col" class="trail-who">
            Who
          </th>
          <th scope="col">What</th>
        </tr>
      </thead>
      <tbody>
        {entries.map((entry) => (
          <Row
            key={entry.id}
            entry={entry}
            actorName={entry.actor === null ? undefined : names[entry.actor]}
            subjectName={entry.subject === null ? undefined : names[entry.subject]}
          />
        ))}
      </tbody>
    </table>
  )
}

interface RowProps {
  entry: AuditEntry
  actorName: string | undefined
  subjectName: string | undefined
}

/** Memoized: appending a page must not render thousands of rows again. */
function Row({ entry, actorName, subjectName }: RowProps) {
  return useMemo(() => {
    const { occurredAt, actor, action, subject, ipAddress } = entry
    const [before, after] = whatOf(entry)
    const asides = [detailsOf(entry), whyOf(entry)].filter((text) => text !== null)
    return (
      <tr class="list-row">
        <td class="trail-when">
          <Time at={occurredAt} />
          {ipAddress && <span class="quiet trail-aside"> from {ipAddress}</span>}
        </td>
        <td class="trail-who">{actor === null ? 'Someone' : <Who id={actor} name={actorName} />}</td>
        <td class="trail-what">
          {before}
          {subject !== null && subject !== actor && !isOfFactor(action) && (
            <>
              {' '}
              <Who id={subject} name={subjectName} />
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
  }, [entry, actorName, subjectName])
}

/** A member's name, an email, or the ID of a deleted member. */
function Who({ id, name }: { id: string; name: string | undefined }) {
  if (id === 'operator') return <>an operator</>
  if (name !== undefined) return <span title={id}>{name}</span>
  return id.includes('@') ? id : <code>{id}</code>
}
