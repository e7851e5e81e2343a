import { describe, expect, test } from 'vitest'
import { createCompany } from '../../src/operator/companies.ts'
import { changeUserRole, createUser, invite as inviteAsOperator } from '../../src/operator/users.ts'
import { expectField, expectProblem } from '../http/problem.ts'
import { newEmail, useService } from '../support/onboarding.ts'
import { releaseTogether } from '../support/races.ts'
import { openTestService, PASSWORD, type Person, times, useSharedService } from '../support/test-service.ts'

/** Invitations by an admin, from the mail to the new member. */

const { service, mailbox } = await useSharedService()
const { use, allSent } = useService(service, mailbox)
const admin = await service.addCompany({ name: 'Acme', adminName: 'Ada' })
const token = (await service.loginAs(admin)).accessToken
const tokenOf = async (person: Person) => (await service.loginAs(person)).accessToken

type Options = Parameters<typeof service.call>[1]

const invite = (json: object, options: Options = {}) =>
  service.call('/auth/invitations', { token, json: { role: 'analyst', ...json }, ...options })
const open = async (options: Options = {}) =>
  (await service.call('/auth/invitations', { method: 'GET', token, ...options })).body.invitations
const idsOf = (rows: { id: string }[]) => rows.map(({ id }) => id)
const withdraw = (id: string, options: Options = {}) =>
  service.call(`/auth/invitations/${id}`, { method: 'DELETE', token, ...options })
const expectDead = async (mailed: string) => {
  const preview = await service.call('/auth/invitations/preview', { json: { token: mailed } })
  const accepted = await use('invite', mailed)
  for (const { status, body } of [preview, accepted])
    expect([status, body.errors?.[0]?.path]).toEqual([400, '/token'])
}

describe('an invitation (section 9 of the interface)', () => {
  test('goes from an admin to a new member, with role and assignments', async () => {
    const email = newEmail()
    const { status, body } = await invite({ email: email.toUpperCase(), assignments: ['environment:test'] })
    expect([status, body]).toEqual([
      201,
      {
        id: expect.any(String),
        email,
        role: 'analyst',
        assignments: ['environment:test'],
        invitedBy: { id: admin.userId, email: admin.email },
        createdAt: new Date(service.clock.now()).toISOString(),
        expiresAt: null,
        mail: 'waiting',
      },
    ])
    const { token: mailed } = await mailbox.mailTo(email)
    await allSent()
    const expiresAt = new Date(service.clock.now() + 72 * 3_600_000).toISOString()
    expect(await open()).toContainEqual({ ...body, mail: 'sent', expiresAt })
    const preview = await service.call('/auth/invitations/preview', { json: { token: mailed } })
    expect(preview.body).toEqual({ companyName: 'Acme', email, role: 'analyst', expiresAt })
    const accepted = await use('invite', mailed, { at: 1 })
    expect(accepted.status).toBe(201)
    const member = await service.call(`/auth/members/${accepted.body.userId}`, { method: 'GET', token })
    expect(member.body).toMatchObject({ email, role: 'analyst', assignments: ['environment:test'] })
    expect(idsOf(await open())).not.toContain(body.id)
    expectProblem(await invite({ email }), [409, 'already_member'])
  })

  test('takes the place of an older one to the same e-mail', async () => {
    const email = newEmail()
    const first = await invite({ email })
    const { token: older } = await mailbox.mailTo(email)
    service.clock.advance(1)
    const second = await invite({ email, role: 'viewer' })
    const { token: newer } = await mailbox.mailTo(email)
    await allSent()
    const ids = idsOf(await open())
    expect([ids.includes(first.body.id), ids.includes(second.body.id)]).toEqual([false, true])
    expectProblem(await withdraw(first.body.id), [404, 'not_found'])
    await expectDead(older)
    expect((await use('invite', newer)).status).toBe(201)
  })

  test('can be mailed again, and withdrawn: then no link of it works', async () => {
    const email = newEmail()
    const { body } = await invite({ email })
    const { token: first } = await mailbox.mailTo(email)
    service.clock.advance(1)
    const again = await service.call(`/auth/invitations/${body.id}/resend`, { token })
    expect([again.status, again.body]).toEqual([202, {}])
    const { token: second } = await mailbox.mailTo(email)
    await allSent()
    await expectDead(first)
    expect((await withdraw(body.id)).status).toBe(204)
    await expectDead(second)
    expect(idsOf(await open())).not.toContain(body.id)
    for (const answer of [
      await withdraw(body.id),
      await service.call(`/auth/invitations/${body.id}/resend`, { token }),
    ])
      expectProblem(answer, [404, 'not_found'])
  })

  test('that is withdrawn before its mail is sent is not sent', async () => {
    const email = newEmail()
    await mailbox.stop()
    const { body } = await invite({ email })
    expect((await withdraw(body.id)).status).toBe(204)
    await mailbox.start()
    await allSent()
    expect(mailbox.mails.filter(({ recipients }) => recipients.includes(email))).toEqual([])
  })

  test.for<[string, (id: string) => Options & { path: string }]>([
    ['demoted', (id) => ({ path: `/auth/members/${id}`, method: 'PATCH', json: { role: 'viewer' } })],
    ['disabled', (id) => ({ path: `/auth/members/${id}`, method: 'PATCH', json: { status: 'disabled' } })],
    ['deleted', (id) => ({ path: `/auth/members/${id}`, method: 'DELETE' })],
  ])('dies when its sender is %s, and for good (ASVS 8.3.2)', async ([, act]) => {
    const sender = await service.addUser(admin, 'admin')
    const email = newEmail()
    const { body } = await invite({ email }, { token: await tokenOf(sender) })
    const { token: mailed } = await mailbox.mailTo(email)
    await allSent()
    const { path, ...options } = act(sender.userId)
    expect((await service.call(path, { token, ...options })).status).toBeLessThan(300)
    await expectDead(mailed)
    expect(idsOf(await open())).not.toContain(body.id)
    if (options.method === 'DELETE') return
    await changeUserRole(service.context, admin.companyId, sender, 'admin', service.clock.now())
    const back = { method: 'PATCH', token, json: { status: 'active' } }
    expect((await service.call(`/auth/members/${sender.userId}`, back)).status).toBe(200)
    await expectDead(mailed)
  })

  test('is accepted once of many times at once, on two instances (ASVS 15.4.2)', async () => {
    const email = newEmail()
    await invite({ email })
    const { token: mailed } = await mailbox.mailTo(email)
    const answers = await Promise.all(times(10, (n) => use('invite', mailed, { at: n % 2 })))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(9)
  })

  test('is accepted or withdrawn, never both', async () => {
    for (const _ of times(5, () => 0)) {
      const email = newEmail()
      const { body } = await invite({ email })
      const { token: mailed } = await mailbox.mailTo(email)
      await allSent()
      const [accepted, withdrawn] = await Promise.all([use('invite', mailed, { at: 1 }), withdraw(body.id)])
      expect([accepted.status, withdrawn.status].sort()).toEqual(
        accepted.status === 201 ? [201, 404] : [204, 400],
      )
    }
  })

  test('to one company says nothing to another (ASVS 8.2.2)', async () => {
    const other = await service.addCompany()
    const credential = { token: await tokenOf(other) }
    const { body } = await invite({ email: newEmail() })
    expect(await open(credential)).toEqual([])
    expectProblem(await withdraw(body.id, credential), [404, 'not_found'])
    const again = await service.call(`/auth/invitations/${body.id}/resend`, credential)
    expectProblem(again, [404, 'not_found'])
  })

  test('comes in pages, the newest first', async () => {
    const other = await service.addCompany()
    const credential = await tokenOf(other)
    const made: string[] = []
    for (const _ of times(5, () => 0)) {
      service.clock.advance(1)
      made.unshift((await invite({ email: newEmail() }, { token: credential })).body.id)
    }
    const listed: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query = `?limit=2${cursor && `&cursor=${cursor}`}`
      const { body } = await service.call(`/auth/invitations${query}`, { method: 'GET', token: credential })
      listed.push(...idsOf(body.invitations))
      cursor = body.nextCursor
    }
    expect(listed).toEqual(made)
  })

  test('that one admin sends again while another admin replaces it is no deadlock (ASVS 15.4.3)', async () => {
    const email = newEmail()
    const { id } = (await invite({ email })).body
    await mailbox.mailTo(email)
    await allSent()
    const other = await tokenOf(await service.addUser(admin, 'admin'))
    const held = { table: 'invitations', companyId: admin.companyId, email } as const
    const answers = await releaseTogether(service.db, held, [
      () => invite({ email }),
      () => service.call(`/auth/invitations/${id}/resend`, { token: other, at: 1 }),
    ])
    // The one that was to be sent again is replaced.
    expect(answers.map(({ status }) => status)).toEqual([201, 404])
  })

  test('counts within the limits of its company, also at once (ASVS 2.4.1)', async () => {
    const strict = await openTestService({
      instances: 2,
      env: { MAX_INVITATIONS_IN_TRIAL: '3', LIMIT_INVITATIONS: '9/3600', RATE_LIMIT_SCALE: '1' },
    })
    const company = await strict.addCompany()
    const { accessToken } = await strict.loginAs(company)
    const send = (at: number, email = newEmail()) =>
      strict.call('/auth/invitations', { token: accessToken, json: { email, role: 'viewer' }, at })
    const answers = await Promise.all(times(6, (n) => send(n % 2)))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 409, 409, 409])
    for (const answer of answers.filter(({ status }) => status === 409))
      expectProblem(answer, [409, 'quota_reached'])
    // In the place of one that is open there is room.
    const [again] = answers.filter(({ status }) => status === 201)
    expect((await send(0, again?.body.email)).status).toBe(201)
    await send(0)
    await send(1)
    expectProblem(await send(0), [429, 'rate_limited'])
  })

  test('into a full company is refused when it is made: members and open invitations count together', async () => {
    const small = await openTestService({ instances: 2, env: { MAX_MEMBERS_IN_TRIAL: '4' } })
    const company = await small.addCompany()
    const { accessToken } = await small.loginAs(company)
    const as = { token: accessToken }
    const send = (at = 0, email = newEmail()) =>
      small.call('/auth/invitations', { ...as, json: { email, role: 'viewer' }, at })
    const answers = await Promise.all(times(6, (n) => send(n % 2)))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, 201, 409, 409, 409])
    for (const answer of answers.filter(({ status }) => status === 409))
      expectProblem(answer, [409, 'quota_reached'])
    const opened = answers.filter(({ status }) => status === 201).map(({ body }) => body)
    const server = { name: 'Worker', role: 'viewer' }
    expectProblem(await small.call('/auth/members', { ...as, json: server }), [409, 'quota_reached'])
    const byOperator = inviteAsOperator(small.context, company.companyId, {
      email: newEmail(),
      role: 'viewer',
    })
    await expect(byOperator).rejects.toMatchObject({ code: 'quota_reached' })
    // Each keeps its own room.
    expect((await send(0, opened[0].email)).status).toBe(201)

    const unsent = small.db.selectFrom('mail_outbox').select('mail_id').where('sent_at', 'is', null)
    await expect.poll(() => unsent.execute()).toEqual([])
    small.clock.advance(73 * 3600)
    const again = await small.loginAs(company)
    Object.assign(as, { token: again.accessToken })
    // They have lapsed, and one of their places is taken.
    expect((await send()).status).toBe(201)
    const resend = (id: string) => small.call(`/auth/invitations/${id}/resend`, as)
    const lapsed = await small.db.selectFrom('invitations').select('invitation_id').execute()
    const ids = lapsed.map(({ invitation_id }) => invitation_id).sort()
    const resent = await Promise.all(ids.slice(0, 3).map(resend))
    expect(resent.map(({ status }) => status).sort()).toEqual([202, 202, 409])
  })
})

test('an address of service accounts is refused wherever that of a person is taken', async () => {
  const email = 'Worker-4821@Service.invalid'
  expectField(await invite({ email }), '/email')
  const company = { companyName: 'C', name: 'N', email, password: PASSWORD }
  expectField(await service.call('/auth/register', { json: company }), '/email')
  const change = await service.call('/auth/email/change', { token, json: { newEmail: email } })
  expectField(change, '/newEmail')
  const { context } = service
  const person = { email, role: 'viewer', password: PASSWORD }
  const acts = await Promise.allSettled([
    inviteAsOperator(context, admin.companyId, person),
    createUser(context, admin.companyId, person),
    createCompany(context, { name: 'C', adminEmail: email, password: PASSWORD }),
  ])
  const refused = { status: 'rejected', reason: expect.objectContaining({ code: 'invalid_request' }) }
  expect(acts).toEqual([refused, refused, refused])
})
