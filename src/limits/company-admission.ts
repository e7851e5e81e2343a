import type { Limit } from '../config/limits.ts'
import { Problem } from '../errors.ts'

const WAITING_PER_RUNNING = 4

interface Company {
  running: number
  waiting: Set<() => void>
}

/** Runs `max` calls of a company at a time, and lets others wait for `windowSeconds`, so that a tenant leaves room for others. */
export function createCompanyAdmission({ max, windowSeconds }: Limit) {
  const companies = new Map<string, Company>()

  async function awaitSlot({ waiting }: Company): Promise<void> {
    if (waiting.size >= max * WAITING_PER_RUNNING) throw tooMany()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waiting.add(resolve)
    const timer = setTimeout(() => {
      waiting.delete(resolve)
      reject(tooMany())
    }, windowSeconds * 1000)
    await promise.finally(() => clearTimeout(timer))
  }

  /** @throws Problem rate_limited */
  return async <Result>(companyId: string, work: () => Promise<Result>): Promise<Result> => {
    const company = companies.get(companyId) ?? { running: 0, waiting: new Set() }
    companies.set(companyId, company)
    if (company.running < max) company.running += 1
    else await awaitSlot(company)
    try {
      return await work()
    } finally {
      // The next call takes over the slot, so that a new one cannot overtake it.
      const [next] = company.waiting
      if (next) {
        company.waiting.delete(next)
        next()
      } else {
        company.running -= 1
        if (company.running === 0) companies.delete(companyId)
      }
    }
  }
}

function tooMany(): Problem {
  const detail = 'Your company has too many of these requests in progress. Retry after 1 second.'
  return new Problem('rate_limited', detail, { retryAfterSeconds: 1 })
}
