import { type Credentials, loginRequest } from '../kit/operations.ts'
import type { Finding } from './aims.ts'
import { ipv4Networks, sendFrom } from './networks.ts'
import type { Target } from './target.ts'

/** Guesses at an account from many networks, each below its own limit. */

const GUESSES_EACH = 10
const networks = ipv4Networks(1_000)

/** After 50 guesses, even the right password is refused, except where the owner of the account is known. */
export async function findGuesses({ url, attacked: [first, second] }: Target): Promise<Finding[]> {
  if (!first || !second) throw new Error('there are too few members')

  async function statusOf(credentials: Credentials, network: number): Promise<number> {
    return (await sendFrom(networks(network), url, loginRequest(credentials))).status
  }

  async function guess(account: Credentials, count: number, firstNetwork: number): Promise<void> {
    for (let n = 0; n < count; n += GUESSES_EACH) {
      const wrong = Array.from({ length: GUESSES_EACH }, (_, i) => ({
        ...account,
        password: `wrong ${n + i}`,
      }))
      const network = firstNetwork + n / GUESSES_EACH
      const statuses = await Promise.all(wrong.map((one) => statusOf(one, network)))
      const other = statuses.find((status) => status !== 401)
      if (other !== undefined) throw new Error(`a guess returned ${other}`)
    }
  }

  const known = 900
  await statusOf(first, known)
  await guess(first, 400, 0)
  await guess(second, 50, 100)
  const expected = (what: string, status: number, aim: number): Finding => ({
    what: `the right password ${what} returns ${aim}`,
    measured: String(status),
    isMet: status === aim,
  })
  return [
    expected('from a new network after 400 guesses', await statusOf(first, 901), 401),
    expected('from a known network after 400 guesses', await statusOf(first, known), 200),
    expected('from a new network after 50 guesses', await statusOf(second, 902), 401),
  ]
}
