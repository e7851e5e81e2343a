import type { Operation } from '../../scripts/fault-test/checker/history.ts'
import type { Outcome } from '../../scripts/fault-test/checker/seen.ts'
import { createRandom } from '../../scripts/fault-test/random.ts'
import { type Answer, type Attempt, openService } from './legal-service.ts'

/**
 * Legal histories: a service in memory does each operation at one moment between its begin and its end, and of some the answer is
 * lost, after it was done, before, or long before.
 */

interface Moment {
  at: number
  happen(): void
}

const LENGTH_MS = 200

export function legalHistory(seed: number): Operation[] {
  const random = createRandom(`legal ${seed}`)
  const history: Operation[] = []
  const agenda: Moment[] = []
  const plan = (at: number, happen: () => void) => agenda.push({ at, happen })
  const service = openService(random)

  function client(name: string, choose: () => Attempt): void {
    function begin(at: number): void {
      if (at > LENGTH_MS) return
      const attempt = choose()
      const isLost = random.isOneIn(6)
      const end = at + 1 + random.below(20)
      const happens = at + random.fraction() * (end - at) * (isLost && random.isOneIn(2) ? 8 : 1)
      const never = isLost && random.isOneIn(3)
      let answer: Answer | undefined
      if (!never) plan(happens, () => (answer = attempt.run()))
      plan(end, () => {
        const known = isLost ? undefined : answer
        const outcome: Outcome = known?.outcome ?? 'unknown'
        const parts = known?.parts ?? attempt.lost
        history.push({
          ...{ client: name, what: attempt.what, begin: at, end, outcome },
          ...{ code: known?.code ?? '', status: known ? 200 : 0, parts },
        })
        if (known) attempt.learn?.(known)
        const next = end + random.below(10)
        plan(next, () => begin(next))
      })
    }
    const first = random.below(20)
    plan(first, () => begin(first))
  }

  for (let n = 0; n < 3; n += 1) client(`person-${n}`, service.person())
  for (let n = 0; n < 2; n += 1) client(`admin-${n}`, service.admin())
  for (let n = 0; n < 2; n += 1) client(`sender-${n}`, service.sender())
  for (let n = 0; n < 2; n += 1) client(`browser-${n}`, service.browser)
  while (agenda.length > 0) {
    agenda.sort((a, b) => b.at - a.at)
    agenda.pop()?.happen()
  }
  return [...history, ...service.stored(LENGTH_MS * 100)]
}
