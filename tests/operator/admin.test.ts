import { describe, expect, test } from 'vitest'
import { run } from '../../scripts/admin/run.ts'
import { PLATFORM } from '../../src/audit/entry.ts'
import { introspect } from '../support/platform.ts'
import { MASTER_KEYS, openTestService } from '../support/test-service.ts'

// Commands read the real clock, and the shared one is ahead of it.
const service = await openTestService()

// Whoever runs the tests is not named.
const settings = { ...process.env, SUDO_USER: '', USER: '', DATABASE_URL: service.url, MASTER_KEYS }

/** Runs a command line against the service's database, in this process. */
async function admin(
  line: string,
  { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {},
) {
  const [out, err]: [unknown[], unknown[]] = [[], []]
  const code = await run(line.split(' '), {
    env: { ...settings, ...env },
    readInput: async () => input,
    print: (text) => out.push(text),
    complain: (reason) => err.push(reason),
  })
  const [stdout = '', stderr = ''] = [out, err].map((texts) => texts.map((text) => `${text}\n`).join(''))
  return { stdout, stderr, code, json: () => JSON.parse(stdout) }
}

describe('user password', () => {
  const server = async () => {
    const person = await service.addCompany()
    const { accessToken: token } = await service.loginAs(person)
    const json = { name: 'Worker', role: 'viewer' }
    const { body } = await service.call('/auth/members', { token, json })
    return { ...person, userId: body.id, email: body.email, password: body.password }
  }
  const command = ({ companyId, userId }: Awaited<ReturnType<typeof server>>) =>
    `user password --company ${companyId} --user ${userId} --json`

  test('gives a service account another one, beside the old one or in its place, and is audited', async () => {
    const old = await server()
    const beside = (await admin(`${command(old)} --previous-valid-seconds 3600`)).json()
    expect(beside).toEqual({
      companyId: old.companyId,
      userId: old.userId,
      password: expect.stringMatching(/^gsp_/),
      previousExpiresAt: expect.stringMatching(/Z$/),
    })
    const next = { ...old, password: beside.password }
    for (const one of [old, next]) expect((await service.login(one)).status).toBe(200)
    const { password, previousExpiresAt } = (await admin(command(old))).json()
    expect(previousExpiresAt).toBeNull()
    for (const one of [old, next]) expect((await service.login(one)).status).toBe(401)
    expect((await service.login({ ...old, password })).status).toBe(200)
    const audit = (await admin(`audit --company ${old.companyId} --json`)).stdout
    expect(audit.match(/"service_password"/g)).toHaveLength(2)
    expect(audit).not.toContain(password)
  })

  test('is for service accounts alone, and for a week at most', async () => {
    const person = await service.addCompany()
    const ofPerson = await admin(command(person))
    expect([ofPerson.code, ofPerson.stderr]).toEqual([1, expect.stringContaining('is a person')])
    const tooLong = await admin(`${command(await server())} --previous-valid-seconds 604801`)
    expect([tooLong.code, tooLong.stderr]).toEqual([1, expect.stringContaining('from 0 to 604800')])
  })
})

describe('second factors', () => {
  test('company security shows and changes the policy', async () => {
    const { companyId } = await service.addCompany()
    const first = await admin(`company security ${companyId} --json`)
    const concerned = { optional: 0, admins: 1, everyone: 1 }
    expect([first.code, first.json()]).toEqual([0, { companyId, secondFactor: 'optional', concerned }])
    const changed = await admin(`company security ${companyId} --second-factor everyone --json`)
    expect(changed.json()).toEqual({ companyId, secondFactor: 'everyone', concerned })
    expect((await admin(`company show ${companyId} --json`)).json().secondFactor).toBe('everyone')
    const { json } = await admin(`audit --company ${companyId} --json`)
    expect(JSON.stringify(json())).toContain('security_policy')
  })

  test.each([
    [
      'a policy that is none',
      'company security 01890a5d-ac96-774b-bcce-b302099a8057 --second-factor all',
      /one of/,
    ],
    ['a company that is none', 'company security 01890a5d-ac96-774b-bcce-b302099a8057', /no company/],
    [
      'a user that is none',
      'user reset-second-factors --company 01890a5d-ac96-774b-bcce-b302099a8057 --email a@x.example',
      /no such user/,
    ],
  ])('%s is refused with the reason', async (_what, line, reason) => {
    const { code, stdout, stderr } = await admin(line)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(reason)
  })

  test('user reset-second-factors helps who has lost them, also the last admin', async () => {
    const person = await service.addCompany()
    const { accessToken: token } = await service.loginAs(person)
    await service.db
      .updateTable('users')
      .set({ second_factors: ['totp'] })
      .where('user_id', '=', person.userId)
      .execute()
    const of = `--company ${person.companyId} --email ${person.email} --json`
    expect((await admin(`user show ${of}`)).json().secondFactors).toEqual(['totp'])
    const { code, json } = await admin(`user reset-second-factors ${of}`)
    expect([code, json()]).toEqual([
      0,
      { companyId: person.companyId, userId: person.userId, status: 'reset; mail queued' },
    ])
    expect((await service.getSession({ token })).body.reason).toBe('ended_by_operator')
    expect((await service.login(person)).status).toBe(401)
    expect((await admin(`user show ${of}`)).json().secondFactors).toEqual([])
  })
})

describe('company create', () => {
  test('takes the password from standard input and prints one JSON object without it', async () => {
    const { stdout, code, json } = await admin(
      'company create --name Acme --admin-email Ada@Acme.example --json',
      {
        input: 'a password of my own\n',
      },
    )
    expect(code).toBe(0)
    expect(stdout.trim().split('\n')).toHaveLength(1)
    expect(json()).toEqual({
      companyId: expect.any(String),
      handle: expect.stringMatching(/^acme-\d{4}$/),
      userId: expect.any(String),
      email: 'ada@acme.example',
    })
    const { companyId } = json()
    const session = await service.loginAs({
      companyId,
      email: 'ada@acme.example',
      password: 'a password of my own',
    })
    expect(session.subscription).toMatchObject({ status: 'trialing', plan: 'growth' })
    expect(session.user).toMatchObject({ role: 'admin' })
  })

  test.each([
    ['a common password', '--name A --admin-email a@a.example', 'password123', /password .*common/],
    [
      'a password equal to the name',
      '--name Cloudberries --admin-email a@a.example',
      'cloudberries',
      /company name/,
    ],
    [
      'a password of the form of service passwords',
      '--name A --admin-email a@a.example',
      'gsp_ and a few words more',
      /gsp_/,
    ],
    ['an unknown plan', '--name A --admin-email a@a.example --plan gold', 'a fine password', /plan/],
    ['an address that is none', '--name A --admin-email nobody', 'a fine password', /e-mail/],
    ['a missing option', '--name A', '', /--admin-email/],
    ['an unknown option', '--name A --admin-email a@a.example --role x', '', /--role/],
  ])(
    'refuses %s, says why on standard error and exits 1 (ASVS 6.2.4, 6.2.11)',
    async (_what, options, input, why) => {
      const before = await service.db.selectFrom('companies').select('company_id').execute()
      const { stdout, stderr, code } = await admin(`company create ${options} --json`, { input })
      expect([stdout, code]).toEqual(['', 1])
      expect(stderr).toMatch(why)
      expect(await service.db.selectFrom('companies').select('company_id').execute()).toHaveLength(
        before.length,
      )
    },
  )
})

test('company suspend and resume hold at once on a running instance', async () => {
  const person = await service.addCompany()
  const { accessToken } = await service.loginAs(person)
  expect((await admin(`company suspend ${person.companyId}`)).code).toBe(0)
  const { body } = await service.call('/auth/session', { method: 'GET', token: accessToken })
  expect([body.code, body.reason]).toEqual(['session_ended', 'company_suspended'])
  expect((await service.login(person)).status).toBe(401)
  expect((await admin(`company resume ${person.companyId}`)).code).toBe(0)
  expect((await service.login(person)).status).toBe(200)
})

test('user create, disable and enable work by address and by id, and refuse what is there or is not', async () => {
  const { companyId } = await service.addCompany()
  const eve = { companyId, email: 'eve@x.example', password: 'a password of my own' }
  const created = await admin(
    `user create --company ${companyId} --email eve@x.example --role analyst --json`,
    { input: eve.password },
  )
  const { userId } = created.json()
  expect((await service.loginAs(eve)).user.role).toBe('analyst')
  const again = await admin(`user create --company ${companyId} --email EVE@x.example --role viewer`)
  expect([again.code, again.stderr]).toEqual([1, expect.stringMatching(/email belongs to a user/)])
  expect((await admin(`user create --company ${companyId} --email f@x.example --role boss`)).stderr).toMatch(
    /role/,
  )

  expect((await admin(`user disable --company ${companyId} --email eve@x.example`)).code).toBe(0)
  expect((await service.login(eve)).status).toBe(401)
  expect((await admin(`user enable --company ${companyId} --user ${userId}`)).code).toBe(0)
  expect((await service.login(eve)).status).toBe(200)
  expect((await admin(`user disable --company ${companyId} --email nobody@x.example`)).stderr).toMatch(
    /no such user/,
  )
})

test('what would leave a company without an admin is refused with the code last_admin', async () => {
  const person = await service.addCompany()
  const { companyId, userId, email } = person
  for (const line of [
    `user disable --company ${companyId} --email ${email}`,
    `user role --company ${companyId} --user ${userId} --role viewer --json`,
    `user delete --company ${companyId} --user ${userId} --json`,
  ]) {
    const { code, stdout, stderr } = await admin(line)
    expect([line, code, stdout]).toEqual([line, 1, ''])
    expect(stderr).toMatch(/^[^\n]+\(last_admin\)\n$/)
  }
  expect((await service.loginAs(person)).user.role).toBe('admin')
})

test('a command that is none is refused as such, also if all objects have something of its name', async () => {
  for (const name of ['constructor', '__proto__', 'toString', 'user constructor', 'prune-all']) {
    const { code, stdout, stderr } = await admin(`${name} --json`)
    expect([name, code, stdout]).toEqual([name, 1, ''])
    expect(stderr).toContain(`there is no command "${name}"`)
  }
})

test('subscription set changes state and plan', async () => {
  const person = await service.addCompany()
  const { code } = await admin(
    `subscription set --company ${person.companyId} --status past_due --plan enterprise`,
  )
  expect(code).toBe(0)
  const { subscription, planFeatures } = await service.loginAs(person)
  expect(subscription).toMatchObject({ status: 'past_due', plan: 'enterprise' })
  expect(planFeatures).toContain('graph')
  expect((await admin(`subscription set --company ${person.companyId} --status late`)).stderr).toMatch(
    /trialing/,
  )
})

test('sessions end ends those of a user or of the whole company, and refuses unknown ones', async () => {
  const person = await service.addCompany()
  const other = await service.addUser(person)
  const [one, two, three] = [
    await service.loginAs(person),
    await service.loginAs(person),
    await service.loginAs(other),
  ]
  const ofUser = await admin(`sessions end --company ${person.companyId} --user ${other.userId} --json`)
  expect(ofUser.json()).toEqual({
    companyId: person.companyId,
    userId: other.userId,
    sessions: 'ended',
  })
  expect((await service.refresh(three.refreshToken)).body.reason).toBe('ended_by_operator')
  expect((await admin(`sessions end --company ${person.companyId} --json`)).json()).toEqual({
    companyId: person.companyId,
    sessions: 'ended',
  })
  for (const { refreshToken } of [one, two]) {
    expect((await service.refresh(refreshToken)).body.reason).toBe('ended_by_operator')
  }
  const unknown = '01990000-0000-7000-8000-000000000000'
  for (const [line, why] of [
    [`sessions end --company ${unknown}`, /no company/],
    [`sessions end --company ${person.companyId} --user ${unknown}`, /no such user/],
  ] as const) {
    const { code, stderr } = await admin(line)
    expect(code).toBe(1)
    expect(stderr).toMatch(why)
  }
})

test('sessions end --all ends those of every company, as a restored backup needs it', async () => {
  const people = [await service.addCompany(), await service.addCompany()]
  const sessions = await Promise.all(people.map((person) => service.loginAs(person)))
  for (const options of ['', '--all --company 01990000-0000-7000-8000-000000000000']) {
    expect((await admin(`sessions end ${options}`.trim())).stderr).toMatch(/--all alone/)
  }
  expect((await admin('sessions end --all --json')).json()).toEqual({
    companies: expect.any(Number),
    sessions: 'ended',
  })
  for (const { refreshToken, accessToken } of sessions) {
    expect((await service.getSession({ token: accessToken })).body.reason).toBe('ended_by_operator')
    expect((await service.refresh(refreshToken)).body.reason).toBe('ended_by_operator')
  }
  for (const person of people) expect((await service.login(person)).status).toBe(200)
})

test('invite queues a mail to an address that is no user yet, and prune tidies up', async () => {
  const { companyId, email } = await service.addCompany()
  const line = `invite --company ${companyId}`
  const { code, json } = await admin(`${line} --email Bob@New.example --role developer --json`)
  expect(code).toBe(0)
  expect(json()).toEqual({ companyId, email: 'bob@new.example', role: 'developer', status: 'mail queued' })
  const mails = await service.db
    .selectFrom('mail_outbox')
    .selectAll()
    .where('company_id', '=', companyId)
    .execute()
  expect(mails).toMatchObject([
    { kind: 'invitation', recipient: 'bob@new.example', facts: { role: 'developer' } },
  ])
  for (const [options, why] of [
    [`--email ${email} --role viewer`, /belongs to a member of the company already/],
    ['--email bob@new.example --role owner', /admin, analyst, developer, viewer/],
    ['--email bob --role viewer', /e-mail address/],
    ['--email bob@new.example', /--role/],
  ] as const) {
    const refused = await admin(`${line} ${options}`)
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    expect(refused.stderr).toMatch(why)
  }
  expect((await admin('prune --json')).json()).toMatchObject({
    tokens: 0,
    counters: 0,
    mails: 0,
    auditMonths: 0,
  })
})

describe('platform clients', () => {
  const listed = async () => (await admin('client list --json')).json().clients

  test('client create shows a secret once, and client list none', async () => {
    const { code, json } = await admin('client create --name risk --scope events:read,introspect --json')
    const client = json()
    expect([code, client]).toEqual([
      0,
      {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        name: 'risk',
        scopes: ['introspect', 'events:read'],
        secret: expect.stringMatching(/^[\w-]{43}$/),
      },
    ])
    const { secret: _, ...shown } = client
    expect(await listed()).toContainEqual({ ...shown, createdAt: expect.any(String), lastUsedAt: null })
    // A service of the platform is admitted by what was printed.
    service.clock.advance(1)
    expect((await introspect(service, client, 'x')).status).toBe(200)
  })

  test('client rotate adds a secret, with --finish it ends the one before, and client delete ends all', async () => {
    const first = (await admin('client create --name graph --scope introspect --json')).json()
    const { id, name, scopes } = first
    const second = (await admin(`client rotate ${id.toUpperCase()} --json`)).json()
    expect(second).toEqual({ ...first, secret: expect.not.stringMatching(first.secret) })
    const statuses = async () => {
      service.clock.advance(1)
      const answers = [await introspect(service, first, 'x'), await introspect(service, second, 'x')]
      return answers.map(({ status }) => status)
    }
    expect(await statuses()).toEqual([200, 200])
    expect((await admin(`client rotate ${id} --finish --json`)).json()).toEqual({ id, name, scopes })
    expect(await statuses()).toEqual([401, 200])
    expect((await admin(`client delete ${id} --json`)).json()).toEqual({ id, status: 'deleted' })
    expect(await statuses()).toEqual([401, 401])
    expect(await listed()).not.toContainEqual(expect.objectContaining({ id }))
    const { entries } = (await admin(`audit --company ${PLATFORM} --json`)).json()
    const ofClient = entries.filter(({ subject }: { subject: string }) => subject === id)
    expect(ofClient.map(({ action, actor }: Record<string, string>) => `${actor} ${action}`)).toEqual([
      'operator client_delete',
      'operator client_rotate',
      'operator client_rotate',
      'operator client_create',
    ])
  })

  test.each([
    ['an unknown scope', 'client create --name risk --scope everything', /some of introspect, events:read/],
    ['no name', 'client create --scope introspect', /needs --name/],
    ['an id that is none', 'client rotate risk', /is not an id/],
    ['an id of nobody', 'client delete 01890a5d-ac96-774b-bcce-b302099a8057', /no such client/],
    ['no id', 'client delete', /takes one client id/],
    ['an option of another', 'client delete 01890a5d-ac96-774b-bcce-b302099a8057 --finish', /--finish/],
  ])('%s is refused with the reason', async (_what, line, reason) => {
    const { code, stdout, stderr } = await admin(line)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(reason)
  })
})

test('keys rotate adds a key that signs in ten minutes, and keys list shows both', async () => {
  const before = (await admin('keys list --json')).json().keys
  const { keyId, signsFrom } = (await admin('keys rotate --json')).json()
  const { keys } = (await admin('keys list --json')).json()
  expect(keys).toHaveLength(before.length + 1)
  expect(keys.at(-1)).toMatchObject({ keyId, signsFrom })
  expect(Date.parse(signsFrom) - Date.parse(keys.at(-1).createdAt)).toBe(600_000)
})

test('company list and show tell what there is', async () => {
  const { companyId, email } = await service.addCompany({ name: 'Zeppelin' })
  await service.addUser({ companyId })
  const { companies } = (await admin('company list --limit 1000 --json')).json()
  const handle = await service.handleOf({ companyId })
  const listed = {
    companyId,
    handle,
    name: 'Zeppelin',
    status: 'active',
    plan: 'growth',
    subscription: 'trialing',
    users: 2,
  }
  expect(companies).toContainEqual({ ...listed, createdAt: expect.any(String) })
  expect((await admin('company list --limit 1 --json')).json().companies).toHaveLength(1)
  const shown = (await admin(`company show ${companyId.toUpperCase()} --json`)).json()
  expect(shown).toMatchObject({ ...listed, admins: [email], signingSecretVersion: null })
  // Wherever it takes a company, it takes the handle.
  expect((await admin(`company show ${handle.toUpperCase()} --json`)).json()).toEqual(shown)
  const { users } = (await admin(`user list --company ${handle} --json`)).json()
  expect(users).toHaveLength(2)
  const { code, stderr } = await admin('user list --company nowhere-1234')
  expect([code, stderr]).toEqual([1, expect.stringContaining('no company has the handle "nowhere-1234"')])
})

test('company delete ends everything of it; what does not exist is refused', async () => {
  const person = await service.addCompany()
  const { accessToken } = await service.loginAs(person)
  const { companyId } = person
  const deleted = (await admin(`company delete ${companyId} --json`)).json()
  expect(deleted).toEqual({ companyId, status: 'deleting', events: 0, sessions: 1, users: 1 })
  expect((await service.getSession({ token: accessToken })).status).toBe(401)
  const { entries } = (await admin(`audit --company ${companyId} --json`)).json()
  expect(entries[0]).toMatchObject({ action: 'company_delete', outcome: 'done', actor: 'operator' })
  for (const command of ['company resume', 'company suspend']) {
    const { code, stderr } = await admin(`${command} ${companyId}`)
    expect([code, stderr]).toEqual([1, 'There is no company with this id.\n'])
  }
})

test('user list, show, role, unlock and delete work by address and by id', async () => {
  const owner = await service.addCompany()
  const { companyId, userId, email } = await service.addUser(owner, 'analyst')
  const of = `--company ${companyId}`
  const { users } = (await admin(`user list ${of} --json`)).json()
  expect(users.map((user: { email: string }) => user.email).toSorted()).toEqual(
    [owner.email, email].toSorted(),
  )
  const changed = (
    await admin(`user role ${of} --email ${email.toUpperCase()} --role developer --json`)
  ).json()
  expect(changed).toEqual({ companyId, userId, role: 'developer', before: 'analyst' })
  expect((await admin(`user show ${of} --user ${userId} --json`)).json()).toMatchObject({
    companyId,
    userId,
    email,
    role: 'developer',
    status: 'active',
    lockedOutAt: null,
  })
  expect((await admin(`user role ${of} --user ${userId} --role boss`)).stderr).toMatch(/admin, analyst/)
  expect((await admin(`user unlock ${of} --user ${userId} --json`)).json().status).toBe('unlocked')
  expect((await admin(`user delete ${of} --email ${email} --json`)).json()).toEqual({
    companyId,
    userId,
    status: 'deleted',
  })
  for (const command of ['show', 'unlock', 'enable', 'delete']) {
    const { code, stderr } = await admin(`user ${command} ${of} --user ${userId}`)
    expect([code, stderr]).toEqual([1, 'The company has no such user.\n'])
  }
  const refused = await admin(`user role ${of} --email ${owner.email} --role viewer --json`)
  expect([refused.code, refused.stdout]).toEqual([1, ''])
  expect(refused.stderr).toMatch(/without an active admin/)
  const { entries } = (await admin(`audit ${of} --limit 3 --json`)).json()
  expect(entries).toMatchObject([
    { action: 'user_delete', subject: userId, details: null },
    { action: 'user_unlock', subject: userId },
    {
      action: 'user_role',
      subject: userId,
      details: { before: { role: 'analyst' }, after: { role: 'developer' } },
    },
  ])
})

test('audit shows the newest first, with what was refused', async () => {
  const person = await service.addCompany()
  service.clock.advance(1)
  const { session } = await service.loginAs(person)
  await service.login({ ...person, password: 'wrong' })
  const { entries, refusedSignIns } = (await admin(`audit --company ${person.companyId} --json`)).json()
  expect(entries[0]).toEqual({
    id: expect.any(String),
    occurredAt: new Date(service.clock.now()).toISOString(),
    action: 'sign_in',
    outcome: 'done',
    actor: person.userId,
    subject: null,
    details: null,
    sessionId: session.id,
    ipAddress: '127.0.0.1',
  })
  expect(entries.at(-1).action).toBe('company_create')
  expect(refusedSignIns).toMatchObject([{ network: '127.0.0.1', count: 1, lastEmail: person.email }])
})

describe('audit --email tells why somebody could not sign in (ASVS 16.3.1):', () => {
  test('what the member did, what was done to them, and their refused sign-ins', async () => {
    const owner = await service.addCompany()
    const { companyId, userId, email } = await service.addUser(owner)
    const password = 'not the password'
    await service.loginAs(owner)
    for (const _ of [1, 2]) await service.login({ companyId, email, password })
    await service.login({ companyId, email: owner.email, password })
    await admin(`user disable --company ${companyId} --email ${email}`)
    service.clock.advance(60)
    await service.login({ companyId, email, password })
    const line = `audit --company ${companyId} --email ${email.toUpperCase()}`
    const { entries, refusedSignIns, ...about } = (await admin(`${line} --json`)).json()
    expect(about).toEqual({ companyId, email, userId, serviceSignIns: [] })
    expect(entries.map((entry: { action: string }) => entry.action)).toEqual(['user_disable', 'user_create'])
    const refused = { network: '127.0.0.1', userId, lastEmail: email, minute: expect.any(String) }
    expect(refusedSignIns).toEqual([
      { ...refused, reason: 'user_disabled', count: 1 },
      { ...refused, reason: 'wrong_password', count: 2 },
    ])
    const { stdout } = await admin(line)
    expect(stdout).toMatch(/"reason":"wrong_password","count":2/)
  })

  test('also of an address that nobody has, as it was typed or invited', async () => {
    const { companyId } = await service.addCompany()
    const email = 'typo@else.example'
    await service.login({ companyId, email, password: 'not the password' })
    await admin(`invite --company ${companyId} --email ${email} --role viewer`)
    const line = `audit --company ${companyId} --email`
    const { userId, entries, refusedSignIns } = (await admin(`${line} ${email} --json`)).json()
    expect(userId).toBeNull()
    expect(entries).toMatchObject([{ action: 'invite', subject: email }])
    expect(refusedSignIns).toMatchObject([
      { reason: 'unknown_user', count: 1, userId: null, lastEmail: email },
    ])
    const other = (await admin(`${line} no@body.example --json`)).json()
    expect(other).toMatchObject({ userId: null, entries: [], refusedSignIns: [] })
  })
})

test('keys retire kills the tokens of a key; an unknown one is refused', async () => {
  const person = await service.addCompany()
  const { accessToken } = await service.loginAs(person)
  const [header = ''] = accessToken.split('.')
  const { kid } = JSON.parse(Buffer.from(header, 'base64url').toString())
  const { keyId, replacedBy } = (await admin(`keys retire --json -- ${kid}`)).json()
  expect([keyId, replacedBy]).toEqual([kid, expect.any(String)])
  expect((await service.getSession({ token: accessToken })).body.code).toBe('invalid_token')
  for (const unknown of [kid, '-an-id-of-before']) {
    const { code, stderr } = await admin(`keys retire -- ${unknown}`)
    expect([code, stderr]).toEqual([1, 'There is no such key that is not retired; `keys list` shows them.\n'])
  }
  expect((await admin('--help')).stdout).toContain('after "--"')
})

test('restored makes void what a backup brought back, and lists what else to check, a line each', async () => {
  const person = await service.addCompany()
  const { accessToken: token } = await service.loginAs(person)
  const { code, json } = await admin('restored --json')
  const { check, companies, ...voided } = json()
  expect([code, companies]).toEqual([0, expect.any(Number)])
  expect(voided).toEqual({
    mails: expect.any(Number),
    links: expect.any(Number),
    invitations: expect.any(Number),
    challenges: expect.any(Number),
    mailedCodes: expect.any(Number),
    retiredKeys: [expect.any(String), ...json().retiredKeys.slice(1)],
    newKey: expect.any(String),
  })
  expect((await service.getSession({ token })).status).toBe(401)
  const { stdout } = await admin('restored')
  expect(stdout).toContain(`check:\n  ${check[0]}\n  ${check[1]}\n`)
  service.clock.advance(6)
  expect((await service.login(person)).status).toBe(200)
})

test('what operators do is in the audit trail (ASVS 16.2.1)', async () => {
  const { companyId } = await service.addCompany()
  await admin(`company suspend ${companyId}`)
  const rows = await service.db
    .selectFrom('audit_events')
    .select(['action', 'outcome', 'actor', 'details'])
    .where('company_id', '=', companyId)
    .execute()
  const done = { action: 'company_suspend', outcome: 'done', actor: 'operator', details: null }
  expect(rows).toContainEqual(done)
})

test('the audit trail names the operator: by --as, or by the shell, before sudo (ASVS 16.2.1)', async () => {
  const person = await service.addCompany()
  const of = `--company ${person.companyId} --json`
  const shell = { SUDO_USER: 'jane', USER: 'root' }
  const before = { secondFactor: 'optional' }
  await admin(`company security ${person.companyId} --second-factor admins --as Ada --json`, { env: shell })
  await admin(`company suspend ${person.companyId}`, { env: shell })
  await admin(`company resume ${person.companyId}`, { env: { USER: 'root' } })
  const { entries } = (await admin(`audit ${of}`)).json()
  const named = entries.map(({ actor, details }: { actor: string; details: unknown }) => [actor, details])
  // The company itself was made by the clock of the test.
  expect(named.filter(([, details]: [string, unknown]) => details).reverse()).toEqual([
    ['operator', { before, after: { secondFactor: 'admins' }, operator: 'Ada' }],
    ['operator', { operator: 'jane' }],
    ['operator', { operator: 'root' }],
  ])
  const { code, stderr } = await admin(`company list --as ${'a'.repeat(101)}`)
  expect([code, stderr]).toEqual([1, expect.stringContaining('--as')])
})

test('a faulty configuration is reported whole, and nothing is done', async () => {
  const { code, stderr } = await admin('keys list', { env: { PORT: 'x', MASTER_KEYS: 'nonsense' } })
  expect(code).toBe(1)
  expect(stderr).toMatch(/PORT/)
  expect(stderr).toMatch(/MASTER_KEYS/)
})

test.each(['', '--help'])('%s prints how it is used', async (line) => {
  const { stdout, code } = await admin(line || '--help')
  expect(code).toBe(0)
  expect(stdout).toContain('company create --name N --admin-email E')
})
