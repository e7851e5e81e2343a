import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { expectProblem } from '../support/problem.ts'
import { countWaiting, openTestService, times, useSharedService } from '../support/test-service.ts'
import { auditOfSession, ended, sessionRow } from './state.ts'

const { service } = await useSharedService()
const admin = await service.addCompany()

/** Moves a session's last rotation into the past of the database's clock. */
async function ageRotation(sessionId: string, seconds: number) {
  await sql`update sessions set rotated_at = rotated_at - make_interval(secs => ${seconds}),
      recent_spent_at = array(select t - make_interval(secs => ${seconds}) from unnest(recent_spent_at) t)
    where session_id = ${sessionId}`.execute(service.db)
}

/** Refreshes in sequence with these keys, `seconds` apart. */
async function refreshInTurn(keys: (string | undefined)[], seconds: number) {
  const first = await service.loginAs(admin)
  let latest = first
  for (const key of keys) {
    latest = (await service.refresh(latest.refreshToken, { ...(key && { key }) })).body
    await ageRotation(first.session.id, seconds)
  }
  return { first, latest }
}

const outcomesOf = async (sessionId: string) =>
  (await auditOfSession(service, sessionId)).map(({ action, outcome }) => `${action} ${outcome}`)

test('concurrent refreshes issue one successor and keep the session', async () => {
  // On a busy machine, the fifty requests can take more than a second.
  const patient = await openTestService({ instances: 2, env: { REFRESH_RACE_SECONDS: '300' } })
  const person = await patient.addCompany()
  for (let round = 0; round < 5; round += 1) {
    const { refreshToken, accessToken } = await patient.loginAs(person)
    const answers = await Promise.all(times(50, (i) => patient.refresh(refreshToken, { at: i % 2 })))
    const good = answers.filter(({ status }) => status === 200)
    expect(new Set(good.map(({ body }) => body.refreshToken)).size).toBe(1)
    for (const answer of answers.filter(({ status }) => status !== 200))
      expectProblem(answer, [401, 'refresh_token_reused'])
    expect((await patient.getSession({ token: accessToken })).status).toBe(200)
    expect((await patient.refresh(good[0]?.body.refreshToken)).status).toBe(200)
  }
})

test('concurrent refreshes with one Idempotency-Key all get the successor', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { refreshToken } = await service.loginAs(admin)
    const answers = await Promise.all(
      times(50, (i) => service.refresh(refreshToken, { at: i % 2, key: `key-${round}` })),
    )
    expect(answers.map(({ status }) => status)).toEqual(times(50, () => 200))
    expect(new Set(answers.map(({ body }) => body.refreshToken)).size).toBe(1)
  }
})

test('a slow race of two refreshes is not theft', async () => {
  const strict = await openTestService({ instances: 2, env: { REFRESH_RACE_SECONDS: '0' } })
  const { refreshToken, session } = await strict.loginAs(await strict.addCompany())
  const { racing } = await strict.db.transaction().execute(async (tx) => {
    await sql`select from sessions where session_id = ${session.id} for update`.execute(tx)
    const racing = [0, 1].map((at) => strict.refresh(refreshToken, { at }))
    await expect.poll(() => countWaiting(strict.db), { timeout: 50_000 }).toBe(2)
    return { racing }
  })
  const [winner, loser] = (await Promise.all(racing)).toSorted((one, other) => one.status - other.status)
  expect([winner?.status, loser?.status, loser?.body.code]).toEqual([200, 401, 'refresh_token_reused'])
  expect((await strict.refresh(winner?.body.refreshToken)).status).toBe(200)
})

test('reusing a refresh token ends its session only (ASVS 10.4.5)', async () => {
  const other = await service.loginAs(admin)
  const { first: stolen, latest: successor } = await refreshInTurn([undefined], 2)
  expect(successor.session.id).toBe(stolen.session.id)
  expect(successor.refreshToken).not.toBe(stolen.refreshToken)
  const replay = await service.refresh(stolen.refreshToken, { at: 1 })
  expect([replay.status, replay.body.code]).toEqual([401, 'refresh_token_reused'])
  for (const token of [stolen.accessToken, successor.accessToken])
    expect(await service.getSession({ token })).toMatchObject(ended('refresh_reuse'))
  expect((await service.refresh(successor.refreshToken)).body.code).toBe('session_ended')
  expect((await service.refresh(other.refreshToken)).status).toBe(200)
  expect(await outcomesOf(stolen.session.id)).toEqual(['refresh reused'])
})

test('a just-used refresh token is refused, but ends nothing', async () => {
  const { first, latest } = await refreshInTurn([undefined], -3600)
  expect((await service.refresh(first.refreshToken, { at: 1 })).body.code).toBe('refresh_token_reused')
  expect((await service.refresh(latest.refreshToken)).status).toBe(200)
  expect(await outcomesOf(first.session.id)).toEqual(['refresh raced'])
})

const abc = ['a', 'b', 'c']
test.for<[retry: string, used: (string | undefined)[], seconds: number, key: string | undefined]>([
  ['with a different key', ['a'], 2, 'x'],
  ['after the idempotency window', ['a'], 301, 'a'],
  ['two refreshes later with a later key', abc, 5, 'b'],
  ['two refreshes later without a key', abc, 0, undefined],
  ['two refreshes and the idempotency window later', abc, 101, 'a'],
  ['of a keyless refresh with a later key', [undefined, 'b', 'c'], 5, 'b'],
])('a refresh retry %s counts as theft', async ([, used, seconds, key]) => {
  const { first, latest } = await refreshInTurn(used, seconds)
  const retry = await service.refresh(first.refreshToken, { ...(key && { key }) })
  expect([retry.body.code, retry.body.reason]).toEqual(['refresh_token_reused', 'refresh_reuse'])
  expect((await service.refresh(latest.refreshToken)).body.code).toBe('session_ended')
})

test('a retried refresh with the same key returns the same token', async () => {
  const { first, latest: lost } = await refreshInTurn(['retry'], 2)
  const { status, body } = await service.refresh(first.refreshToken, { key: 'retry', at: 1 })
  expect([status, body.refreshToken]).toEqual([200, lost.refreshToken])
})

test('a late retry with its own idempotency key ends nothing', async () => {
  const { first, latest } = await refreshInTurn(['a', 'b', 'c'], 5)
  for (const at of [0, 1])
    expectProblem(await service.refresh(first.refreshToken, { key: 'a', at }), [401, 'refresh_token_reused'])
  expect((await service.refresh(latest.refreshToken)).status).toBe(200)
  expect(await outcomesOf(first.session.id)).toEqual(['refresh raced', 'refresh raced'])
})

test('a session keeps idempotency keys only for their window', async () => {
  const { first } = await refreshInTurn(['a', 'b', 'c', 'd', 'e'], 120)
  const { recent_keys: keys, recent_spent_at: times } = await sessionRow(service, first.session.id)
  expect([keys.length, times.length]).toEqual([3, 3])
})

test('an Idempotency-Key used with an earlier token is a conflict', async () => {
  const { latest } = await refreshInTurn(['one', 'two'], 0)
  for (const key of ['one', 'two'])
    expectProblem(await service.refresh(latest.refreshToken, { key }), [409, 'idempotency_conflict'])
  expect((await service.refresh(latest.refreshToken, { key: 'three' })).status).toBe(200)
})

test('a malformed Idempotency-Key consumes no refresh token', async () => {
  const { refreshToken } = await service.loginAs(admin)
  for (const key of ['a b', 'ü', 'x'.repeat(129)]) {
    const headers = { 'idempotency-key': Buffer.from(key).toString('latin1') }
    expect((await service.refresh(refreshToken, { headers })).status).toBe(400)
  }
  expect((await service.refresh(refreshToken)).status).toBe(200)
})

test('a grace period returns the successor only to keyless clients', async () => {
  const env = { REFRESH_GRACE_SECONDS: '3600', REFRESH_RACE_SECONDS: '0' }
  const gentle = await openTestService({ env })
  const person = await gentle.addCompany()
  const plain = await gentle.loginAs(person)
  const { body: lost } = await gentle.refresh(plain.refreshToken)
  expect((await gentle.refresh(plain.refreshToken)).body.refreshToken).toBe(lost.refreshToken)
  const keyed = await gentle.loginAs(person)
  await gentle.refresh(keyed.refreshToken, { key: 'mine' })
  expect((await gentle.refresh(keyed.refreshToken)).body.code).toBe('refresh_token_reused')
})
