import { expect, onTestFinished, test } from 'vitest'
import { PLATFORM } from '../../src/audit/entry.ts'
import { introspect } from '../support/platform.ts'
import { openTestService } from '../support/test-service.ts'
import { commandLineOf } from './command-line.ts'

// Not the shared service, because commands read the real clock, and its clock is ahead.
const service = await openTestService()
const { type, admin, refusalOf } = commandLineOf(service)
const NOBODY = '01890a5d-ac96-774b-bcce-b302099a8057'

const auditOf = async (companyId: string) => await admin(`audit --company ${companyId}`)
const endOf = async (refreshToken: string) => (await service.refresh(refreshToken)).body.reason

test("user password replaces a service account's password, and is audited", async () => {
  const { companyId, ...person } = await service.addCompany()
  const { accessToken: token } = await service.loginAs({ companyId, ...person })
  const json = { name: 'Worker', role: 'viewer' }
  const { body } = await service.call('/auth/members', { token, json })
  const command = `user password --company ${companyId} --user ${body.id}`
  const beside = await admin(`${command} --previous-valid-seconds 3600`)
  const secret = { password: expect.stringMatching(/^gsp_/), previousExpiresAt: expect.stringMatching(/Z$/) }
  expect(beside).toEqual({ companyId, userId: body.id, ...secret })
  const { password, previousExpiresAt } = await admin(command)
  expect(previousExpiresAt).toBeNull()
  expect((await service.login({ companyId, email: body.email, password })).status).toBe(200)
  const { entries } = await auditOf(companyId)
  expect(entries.filter(({ action }: { action: string }) => action === 'service_password')).toHaveLength(2)
  const ofPerson = `user password --company ${companyId} --user ${person.userId}`
  expect(await refusalOf(ofPerson)).toContain('is a person')
})

test('user reset-second-factors helps users who lost theirs, even the last admin', async () => {
  const person = await service.addCompany()
  const { companyId, userId, email } = person
  const { accessToken: token } = await service.loginAs(person)
  const users = service.db.updateTable('users').where('user_id', '=', userId)
  await users.set({ second_factors: ['totp'] }).execute()
  const of = `--company ${companyId} --email ${email}`
  expect((await admin(`user show ${of}`)).secondFactors).toEqual(['totp'])
  const reset = { companyId, userId, status: 'reset; email queued' }
  expect(await admin(`user reset-second-factors ${of}`)).toEqual(reset)
  expect((await service.getSession({ token })).body.reason).toBe('ended_by_operator')
  expect((await service.login(person)).status).toBe(401)
  expect((await admin(`user show ${of}`)).secondFactors).toEqual([])
})

const CREATE = 'company create --name Cloudberries --admin-email a@a.example'

test.for<[what: string, line: string, why: RegExp, input?: string]>([
  ['a common password (ASVS 6.2.4)', CREATE, /"password" .*common/, 'password123'],
  ['a password equal to the company name (ASVS 6.2.11)', CREATE, /company name/, 'cloudberries'],
  ['an unknown plan', `${CREATE} --plan gold`, /plan/, 'a fine password'],
  [
    'an invalid email',
    'company create --name A --admin-email nobody',
    /"email" must be an email address/,
    'a fine password',
  ],
  ['a command that does not exist', 'user constructor', /^Unknown command "user constructor"/],
  ['a missing option', 'company create --name A', /--admin-email/],
  ['an option of other commands', `${CREATE} --role x`, /--role/],
  ['an unknown subscription status', `subscription set --company ${NOBODY} --status late`, /trial/],
  ['a policy that does not exist', `company security ${NOBODY} --second-factor all`, /one of/],
  [
    'a session limit that is too low',
    `company security ${NOBODY} --session-idle-seconds 299`,
    /from 300 to 604800/,
  ],
  [
    'a session limit that is no number',
    `company security ${NOBODY} --session-max-age-seconds none`,
    /from 900/,
  ],
  ['the policy of an unknown company', `company security ${NOBODY}`, /No company has this ID/],
  ['the deletion of an unknown company', `company delete ${NOBODY}`, /No company has this ID/],
  ['an unknown handle', 'user list --company nowhere-1234', /^No company has the handle "nowhere-1234"/],
  ['an unknown user', `user reset-second-factors --company ${NOBODY} --email a@x.example`, /no such user/],
  [
    'an invitation to an unknown company',
    `invite --company ${NOBODY} --email a@x.example --role viewer`,
    /No company has this ID/,
  ],
  ['sessions of an unknown company', `sessions end --company ${NOBODY}`, /No company has this ID/],
  ['sessions of nobody', 'sessions end', /either --company or --all/],
  [
    'sessions of all and of one company',
    `sessions end --all --company ${NOBODY}`,
    /either --company or --all/,
  ],
  [
    'a previous password that stays valid for over a week',
    `user password --company ${NOBODY} --user ${NOBODY} --previous-valid-seconds 604801`,
    /from 0 to 604800/,
  ],
  [
    'an unknown scope',
    'client create --name risk --scope everything',
    /one or more of introspect, events:read/,
  ],
  ['a client name with a link', 'client create --name http://x.example --scope introspect', /must not/],
  ['an invalid client id', 'client rotate risk', /is not an id/],
  ['an unknown client', `client delete ${NOBODY}`, /no such client/],
  ['a missing client id', 'client delete', /needs a CLIENT/],
  ['an unknown key', 'keys retire -- -an-unknown-id', /no key with this id.*`keys list`/],
  ['a name of an operator that is too long', `company list --as ${'a'.repeat(101)}`, /--as/],
])('a command fails with a reason for %s', async ([, line, why, input = '']) => {
  expect(await refusalOf(line, { input })).toMatch(why)
})

test('commands on a company take effect, and are audited with their operator (ASVS 16.2.1)', async () => {
  const person = await service.addCompany()
  const { companyId } = person
  const { accessToken: token } = await service.loginAs(person)
  const env = { SUDO_USER: 'jane', USER: 'root' }
  const concerned = { optional: 0, admins: 1, everyone: 1 }
  const none = { sessionIdleSeconds: null, sessionMaxAgeSeconds: null }
  const shown = { companyId, secondFactor: 'optional', ...none, concerned }
  expect(await admin(`company security ${companyId}`)).toEqual(shown)
  const changed = await admin(`company security ${companyId} --second-factor admins --as Ada`, { env })
  expect(changed).toEqual({ ...shown, secondFactor: 'admins' })
  expect((await admin(`company show ${companyId}`)).secondFactor).toBe('admins')
  await admin(`company security ${companyId} --second-factor optional`)
  await admin(`company suspend ${companyId}`, { env })
  expect((await service.getSession({ token })).body.reason).toBe('company_suspended')
  expect((await service.login(person)).status).toBe(401)
  await admin(`company resume ${companyId}`, { env: { USER: 'root' } })
  await admin(`subscription set --company ${companyId} --status past_due --plan enterprise`)
  const { subscription, planFeatures } = await service.loginAs(person)
  expect(subscription).toMatchObject({ status: 'past_due', plan: 'enterprise' })
  expect(planFeatures).toContain('graph')
  const { entries } = await auditOf(companyId)
  const told = entries.map(({ action, actor, details }: Record<string, unknown>) => [action, actor, details])
  const [before, after] = [{ secondFactor: 'optional' }, { secondFactor: 'admins' }]
  const expected = [
    ['security_policy', 'operator', { before, after, operator: 'Ada' }],
    ['security_policy', 'operator', { before: after, after: before }],
    ['company_suspend', 'operator', { operator: 'jane' }],
    ['company_resume', 'operator', { operator: 'root' }],
    ['subscription_set', 'operator', null],
  ]
  expect(told).toEqual(expect.arrayContaining(expected))
})

test('an operator sets and removes the session limits of a company', async () => {
  const person = await service.addCompany()
  const { companyId } = person
  const command = `company security ${companyId}`
  const limits = { sessionIdleSeconds: 900, sessionMaxAgeSeconds: 43_200 }
  const none = { sessionIdleSeconds: null, sessionMaxAgeSeconds: null }
  const changed = await admin(
    `${command} --session-idle-seconds 900 --session-max-age-seconds 43200 --as Ada`,
  )
  expect(changed).toEqual({ companyId, secondFactor: 'optional', ...limits, concerned: changed.concerned })
  expect(await admin(command)).toEqual(changed)
  expect((await service.loginAs(person)).refreshExpiresIn).toBe(900)
  expect(await refusalOf(`${command} --session-idle-seconds 43201`)).toMatch(
    /longer than the maximum age of 43200 seconds/,
  )
  const removed = await admin(`${command} --session-idle-seconds default --session-max-age-seconds default`)
  expect(removed).toEqual({ ...changed, ...none })
  const { entries } = await auditOf(companyId)
  const details = { before: none, after: limits, operator: 'Ada' }
  const setting = { action: 'security_policy', actor: 'operator', details }
  expect(entries).toEqual(expect.arrayContaining([expect.objectContaining(setting)]))
})

test('user commands find the user by email or id, and are audited', async () => {
  const owner = await service.addCompany()
  const { companyId } = owner
  const of = `--company ${companyId}`
  const eve = { companyId, email: 'eve@x.example', password: 'a password of my own' }
  const input = eve.password
  const { userId } = await admin(`user create ${of} --email eve@x.example --role analyst`, { input })
  const duplicate = `user create ${of} --email EVE@x.example --role viewer`
  expect(await refusalOf(duplicate)).toMatch(/"email" is already the email of a user/)
  expect(await refusalOf(`user create ${of} --email f@x.example --role boss`)).toMatch(/role/)
  const { users } = await admin(`user list ${of}`)
  const emails = users.map(({ email }: { email: string }) => email)
  expect(emails.toSorted()).toEqual([owner.email, eve.email])

  const changed = await admin(`user role ${of} --email EVE@x.example --role developer`)
  expect(changed).toEqual({ companyId, userId, role: 'developer', before: 'analyst' })
  const shown = { companyId, userId, email: eve.email, role: 'developer', status: 'active' }
  expect(await admin(`user show ${of} --user ${userId}`)).toMatchObject({ ...shown, lockedOutAt: null })
  expect(await refusalOf(`user role ${of} --user ${userId} --role boss`)).toMatch(/admin, analyst/)
  await admin(`user disable ${of} --email eve@x.example`)
  expect((await service.login(eve)).status).toBe(401)
  await admin(`user enable ${of} --user ${userId}`)
  expect((await service.login(eve)).status).toBe(200)
  expect((await admin(`user unlock ${of} --user ${userId}`)).status).toBe('unlocked')
  const deleted = { companyId, userId, status: 'deleted' }
  expect(await admin(`user delete ${of} --email eve@x.example`)).toEqual(deleted)
  for (const command of ['show', 'unlock', 'enable', 'delete'])
    expect(await refusalOf(`user ${command} ${of} --user ${userId}`)).toBe('The company has no such user.')

  const { entries } = await admin(`audit ${of} --limit 5`)
  const actions = entries.map(({ action }: { action: string }) => action)
  expect(actions.join(' ')).toBe('user_delete user_unlock user_enable user_disable user_role')
  const details = { before: { role: 'analyst' }, after: { role: 'developer' } }
  expect(entries[4]).toMatchObject({ subject: userId, details })
})

test('commands that would leave no active admin fail with last_admin', async () => {
  const person = await service.addCompany()
  const { companyId, userId, email } = person
  await service.addUser(person)
  const other = await service.addUser(person, 'admin')
  await admin(`user disable --company ${companyId} --email ${other.email}`)
  for (const line of [
    `user disable --company ${companyId} --email ${email}`,
    `user role --company ${companyId} --user ${userId} --role viewer`,
    `user delete --company ${companyId} --user ${userId}`,
  ])
    expect(await refusalOf(line)).toMatch(/^[^\n]+ without an active admin[^\n]+\(last_admin\)$/)
  expect((await service.loginAs(person)).user.role).toBe('admin')
})

test('sessions end ends all sessions of a user, a company, or everyone', async () => {
  const person = await service.addCompany()
  const { companyId } = person
  const member = await service.addUser(person)
  const { userId } = member
  const people = [member, person, await service.addCompany()]
  const sessions = await Promise.all(people.map((one) => service.loginAs(one)))
  for (const [options, told] of [
    [`--company ${companyId} --user ${userId}`, { companyId, userId }],
    [`--company ${companyId}`, { companyId }],
    ['--all', { companies: expect.any(Number) }],
  ] as const) {
    expect(await admin(`sessions end ${options}`)).toEqual({ ...told, sessions: 'ended' })
    expect(await endOf(sessions.shift()?.refreshToken)).toBe('ended_by_operator')
    for (const { accessToken: token } of sessions)
      expect((await service.getSession({ token })).status).toBe(200)
  }
  const unknown = `sessions end --company ${companyId} --user ${NOBODY}`
  expect(await refusalOf(unknown)).toMatch(/no such user/)
  expect((await service.login(person)).status).toBe(200)
})

test('invite queues an email to new addresses, and prune runs housekeeping', async () => {
  const { companyId, email } = await service.addCompany()
  const line = `invite --company ${companyId}`
  const invited = { companyId, email: 'bob@new.example', role: 'developer', status: 'email queued' }
  expect(await admin(`${line} --email Bob@New.example --role developer`)).toEqual(invited)
  const mails = service.db.selectFrom('mail_outbox').selectAll().where('company_id', '=', companyId)
  const mail = { kind: 'invitation', recipient: 'bob@new.example', facts: { role: 'developer' } }
  expect(await mails.execute()).toMatchObject([mail])
  expect(await refusalOf(`${line} --email ${email} --role viewer`)).toMatch(/belongs to a member/)
  expect(await admin('prune')).toMatchObject({ tokens: 0, counters: 0, mails: 0, auditMonths: 0 })
})

test('client commands manage platform clients and their secrets', async () => {
  const listed = async () => (await admin('client list')).clients
  const { secret, ...client } = await admin('client create --name risk --scope events:read,introspect')
  expect(client).toEqual({ id: expect.any(String), name: 'risk', scopes: ['introspect', 'events:read'] })
  expect(await listed()).toContainEqual({ ...client, createdAt: expect.any(String), lastUsedAt: null })
  const rotated = await admin(`client rotate ${client.id.toUpperCase()}`)
  expect(rotated).toEqual({ ...client, secret: expect.not.stringMatching(secret) })
  expect(await admin(`client rotate ${client.id} --finish`)).toEqual(client)
  service.clock.advance(1)
  const statusWith = async (secret: string) => (await introspect(service, { ...client, secret }, 'x')).status
  expect([await statusWith(secret), await statusWith(rotated.secret)]).toEqual([401, 200])
  expect(await admin(`client delete ${client.id}`)).toEqual({ id: client.id, status: 'deleted' })
  expect(await listed()).toEqual([])
  const { entries } = await auditOf(PLATFORM)
  const ofClient = entries.filter(({ subject }: { subject: string }) => subject === client.id)
  const acts = ofClient.map(({ action, actor }: Record<string, string>) => `${actor} ${action}`)
  expect(acts).toEqual(['delete', 'rotate', 'rotate', 'create'].map((verb) => `operator client_${verb}`))
})

test('keys rotate adds a future key, and keys retire ends tokens', async () => {
  const before = (await admin('keys list')).keys
  const { keyId, signsFrom } = await admin('keys rotate')
  const { keys } = await admin('keys list')
  expect(keys).toHaveLength(before.length + 1)
  expect(keys.at(-1)).toMatchObject({ keyId, signsFrom })
  expect(Date.parse(signsFrom) - Date.parse(keys.at(-1).createdAt)).toBe(600_000)

  const { accessToken: token } = await service.loginAs(await service.addCompany())
  const [header = ''] = token.split('.')
  const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString())
  const retired = await admin(`keys retire -- ${kid}`)
  expect(retired).toEqual({ keyId: kid, replacedBy: expect.any(String) })
  expect((await service.getSession({ token })).body.code).toBe('invalid_token')
  expect(await refusalOf(`keys retire -- ${kid}`)).toMatch(/^There is no key with this id/)
})

test('company list, show, and delete accept IDs and handles', async () => {
  const person = await service.addCompany({ name: 'Zeppelin' })
  const { companyId, email } = person
  await service.addUser(person)
  const { accessToken: token } = await service.loginAs(person)
  const handle = await service.handleOf(person)
  const company = { companyId, handle, name: 'Zeppelin', status: 'active', plan: 'growth' }
  const listed = { ...company, subscription: 'trialing', users: 2 }
  const { companies } = await admin('company list --limit 1000')
  expect(companies).toContainEqual({ ...listed, createdAt: expect.any(String) })
  expect((await admin('company list --limit 1')).companies).toHaveLength(1)
  const shown = await admin(`company show ${companyId.toUpperCase()}`)
  expect(shown).toMatchObject({ ...listed, admins: [email], signingSecretVersion: null })
  expect(await admin(`company show ${handle.toUpperCase()}`)).toEqual(shown)
  expect((await admin(`user list --company ${handle}`)).users).toHaveLength(2)

  const deleted = { companyId, status: 'deleting', events: 0, sessions: 1, users: 2 }
  expect(await admin(`company delete ${handle}`)).toEqual(deleted)
  expect((await service.getSession({ token })).status).toBe(401)
  const { entries } = await auditOf(companyId)
  expect(entries[0]).toMatchObject({ action: 'company_delete', outcome: 'done', actor: 'operator' })
  for (const command of ['resume', 'suspend'])
    expect(await refusalOf(`company ${command} ${companyId}`)).toBe('No company has this ID.')
})

test('audit shows what happened, and why sign-ins failed (ASVS 16.3.1)', async () => {
  const owner = await service.addCompany()
  const { companyId, userId, email } = await service.addUser(owner)
  // Nothing is added to the sums of minutes that are over by the database's clock.
  service.clock.advance(600)
  onTestFinished(() => service.clock.advance(-600))
  const { session } = await service.loginAs(owner)
  const refuse = (email: string) => service.login({ companyId, email, password: 'wrong' })
  const typo = 'typo@else.example'
  for (const one of [email, email, owner.email, typo]) await refuse(one)
  const line = `audit --company ${companyId}`
  const { entries, refusedSignIns } = await admin(line)
  const occurredAt = new Date(service.clock.now()).toISOString()
  const done = { action: 'sign_in', outcome: 'done', actor: owner.userId, subject: null, details: null }
  const from = { sessionId: session.id, ipAddress: '127.0.0.1' }
  expect(entries[0]).toEqual({ id: expect.any(String), occurredAt, ...done, ...from })
  expect([entries.length, refusedSignIns.length]).toEqual([3, 3])

  await admin(`user disable --company ${companyId} --email ${email}`)
  service.clock.advance(60)
  await refuse(email)
  await refuse('other@else.example')
  const ofMember = `${line} --email ${email.toUpperCase()}`
  const refused = { network: '127.0.0.1', userId, lastEmail: email, minute: expect.any(String) }
  expect(await admin(ofMember)).toMatchObject({
    ...{ companyId, email, userId, serviceSignIns: [] },
    entries: [{ action: 'user_disable' }, { action: 'user_create' }],
    refusedSignIns: [
      { ...refused, reason: 'user_disabled', count: 1 },
      { ...refused, reason: 'wrong_password', count: 2 },
    ],
  })
  expect((await type(ofMember)).stdout).toMatch(/"reason":"wrong_password","count":2/)
  // An email address without a user, as someone typed or invited it.
  await admin(`invite --company ${companyId} --email ${typo} --role viewer`)
  expect(await admin(`${line} --email ${typo}`)).toMatchObject({
    userId: null,
    entries: [{ action: 'invite', subject: typo }],
    refusedSignIns: [{ reason: 'unknown_user', count: 1, userId: null, lastEmail: typo }],
  })
})

test('restored invalidates what a backup restored, and lists further checks', async () => {
  const person = await service.addCompany()
  const { accessToken: token } = await service.loginAs(person)
  const { check, retiredKeys, newKey } = await admin('restored')
  expect(retiredKeys).not.toContain(newKey)
  expect((await service.getSession({ token })).status).toBe(401)
  expect((await type('restored')).stdout).toContain(`check:\n  ${check[0]}\n  ${check[1]}\n`)
  service.clock.advance(6)
  expect((await service.login(person)).status).toBe(200)
})

test('a missing command and --help print the usage', async () => {
  const [alone, help] = [await type('--as Ada'), await type('--help')]
  expect(alone).toEqual(help)
  const usage = expect.stringMatching(/company create --name N --admin-email E.*after "--"/s)
  expect(help).toMatchObject({ code: 0, stdout: usage })
  expect(help.stdout).not.toContain('undefined')
})
