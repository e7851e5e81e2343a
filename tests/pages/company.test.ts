import { expect, test } from 'vitest'
import { enter, fill, go, heading, openPages, press, say, type } from '../support/browser.ts'

/** What a company sees and changes of itself on the pages, in a real browser. */

const { origin, service, openPage, codeTo } = await openPages()

/** A company with an admin who is signed in, and remembers the company. */
async function openSignedIn() {
  const admin = await service.addCompany()
  const browser = await openPage(origin)
  const { page } = browser
  await page.goto(`${origin}/sign-in`)
  await page.getByLabel('Remember the company on this device').check()
  await enter(page, admin)
  await heading(page, 'Developer settings')
  return { admin, ...browser }
}

test.for([
  ['admin', 'Developer settings'],
  ['developer', 'Developer settings'],
  ['analyst', 'Your account'],
  ['viewer', 'Your account'],
] as const)(
  'a member with the role %s begins at %s, and finds what they can do in words',
  async ([role, home]) => {
    const { page, expectClean } = await openPage(origin)
    await page.goto(`${origin}/sign-in`)
    await enter(page, await service.addUser(await service.addCompany(), role))
    await heading(page, home)
    await go(page, 'Account')
    const shown = await page.locator('dt:text-is("Role") + dd').innerText()
    expect(shown).toMatch(new RegExp(`^${role}\\s+[A-Z]\\w+ .+\\.$`))
    await page.getByRole('listitem').getByText('see risks').waitFor()
    await go(page, 'Developer')
    await heading(page, 'Developer settings')
    expectClean()
  },
)

test('a pasted list of people gives each the role on their line, and the others the one that is chosen', async () => {
  const { admin, page, expectClean } = await openSignedIn()
  await go(page, 'Members')
  const section = page.getByRole('region', { name: 'Invite people' })
  const box = section.getByLabel('Email addresses')
  await box.fill(
    'Ann <ann@list.example>, analyst\nbob@bücher.example\nEve@list.example Admin\nnot-an-email, developer',
  )
  await section.getByLabel('Role').selectOption('viewer')
  await press(section, 'Invite 4 people')
  await say(page, '2 invitations are on their way.')
  // For an admin, the mailbox of who invites decides, unless they have a second factor.
  await press(section, 'Email me a code')
  await type(section.getByLabel('Code from the email'), '00000000')
  await press(section, 'Continue')
  await section.getByText('is wrong, used or expired').waitFor()
  await section.getByText('Inviting').waitFor({ state: 'detached' })
  await type(section.getByLabel('Code from the email'), await codeTo(admin.email))
  await press(section, 'Continue')
  await say(page, 'An invitation is on its way to Eve@list.example.')
  await section.getByText("isn't an email address").waitFor()
  // What is left keeps its role.
  expect(await box.inputValue()).toBe('not-an-email, developer')
  const rows = await service.db
    .selectFrom('invitations')
    .select(['email', 'role'])
    .where('company_id', '=', admin.companyId)
    .orderBy('email')
    .execute()
  expect(rows.map(({ email, role }) => `${email} ${role}`.toLowerCase())).toEqual([
    'ann@list.example analyst',
    'bob@xn--bcher-kva.example viewer',
    'eve@list.example admin',
  ])
  expectClean()
})

test('a member becomes an admin once the code from the email is entered', async () => {
  const { admin, page, expectClean } = await openSignedIn()
  const { email } = await service.addUser(admin)
  await go(page, 'Members')
  await press(page, `Manage ${email}`)
  const details = page.locator('.list-details')
  await details.getByLabel('Role').selectOption('admin')
  await press(details, 'Save')
  await press(details, 'Email me a code')
  await type(details.getByLabel('Code from the email'), await codeTo(admin.email))
  await press(details, 'Continue')
  await details.getByText('Saved.').waitFor()
  await page.locator('.list-row', { hasText: email }).getByText('admin').waitFor()
  expectClean()
})

test('a changed handle says first whom it concerns, and names that are changed are shown everywhere at once', async () => {
  const { admin, page, context, expectClean } = await openSignedIn()
  const { accessToken: token } = await service.loginAs(admin)
  await service.addUser(admin)
  const server = { name: 'Billing worker', role: 'developer' }
  const { body: program } = await service.call('/auth/members', { token, json: server })
  const { body: before } = await service.getSession({ token })
  const former: string = before.accessContext.companyHandle
  const second = await context.newPage()
  await second.goto(`${origin}/account`)
  await go(page, 'Company')
  const section = page.getByRole('region', { name: 'Handle' })
  const dialog = page.getByRole('dialog', { name: 'Change the handle to renamed-1234?' })
  // One that cannot be is refused before anybody is asked.
  for (const wrong of ['4821-acme', 'ab', 'acme-']) {
    await type(section.getByLabel('Handle'), wrong)
    await press(section, 'Save handle')
    await section.locator('[aria-invalid=true]').waitFor()
    await section.getByText('begin with a letter and end with a letter or digit').waitFor()
    expect(await page.getByRole('dialog').count()).toBe(0)
  }
  await type(section.getByLabel('Handle'), '')
  await press(section, 'Save handle')
  await section.getByText('Enter a handle.').waitFor()
  await type(section.getByLabel('Handle'), ' Renamed-1234 ')
  await press(section, 'Save handle')
  await dialog.getByText('2 members').waitFor()
  await dialog.getByText('1 service account').waitFor()
  await dialog.getByText(`${former} stops working at once.`).waitFor()
  await press(dialog, 'Cancel')
  await dialog.waitFor({ state: 'detached' })
  expect((await service.getSession({ token })).body.accessContext.companyHandle).toBe(former)
  await press(section, 'Save handle')
  await press(dialog, 'Change handle')
  await section.getByText('Everyone signs in with renamed-1234 from now on.').waitFor()
  // What the dialog says of programs.
  const signIn = ({ company, companyId }: { company?: string; companyId?: string }) =>
    service.call('/auth/login', {
      json: { company, companyId, email: program.email, password: program.password },
    })
  const { companyId } = admin
  const tries = [{ company: former }, { company: 'renamed-1234' }, { companyId }].map(signIn)
  expect((await Promise.all(tries)).map(({ status }) => status)).toEqual([401, 200, 200])
  // One that another company has is refused at its field.
  const other = await service.addCompany({ name: 'Other' })
  const { accessToken: theirs } = await service.loginAs(other)
  const taken: string = (await service.getSession({ token: theirs })).body.accessContext.companyHandle
  await type(section.getByLabel('Handle'), taken)
  await press(section, 'Save handle')
  await press(page.getByRole('dialog'), 'Change handle')
  await section.locator('.error').waitFor()

  await type(page.getByRole('textbox', { name: 'Name', exact: true }), 'Renamed')
  await press(page, 'Save name')
  await page.locator('.company', { hasText: 'Renamed' }).waitFor()
  await second.locator('.company', { hasText: 'Renamed' }).waitFor()
  await go(page, 'Account')
  await fill(page, { Name: 'Ada King' })
  await press(page, 'Save name')
  for (const tab of [page, second]) await tab.locator('.who', { hasText: 'Ada King' }).waitFor()
  await go(page, 'Members')
  await page.getByRole('rowheader', { name: 'Ada King' }).waitFor()
  await press(page, 'Sign out')
  await say(page, 'Signing in to Renamed')
  expectClean()
})

test('what is copied is said on its button, and what becomes of the first event below the code that sends it', async () => {
  const { admin, page, context, expectClean } = await openSignedIn()
  await press(page, 'Create signing secret')
  const send = page.getByRole('region', { name: 'Send events' })
  await send.getByText('Waiting for the first event').waitFor()
  const secret = page.locator('.secret')
  const shown = (await secret.locator('code').textContent()) ?? ''
  const button = secret.getByRole('button', { name: 'Copy the secret' })
  // The browser refuses until it is allowed.
  await button.click()
  await button.getByText('press Ctrl+C').waitFor()
  expect(await page.evaluate<string>('String(getSelection())')).toBe(shown)
  await button.blur()
  await button.getByText('Copy', { exact: true }).waitFor()
  await context.grantPermissions(['clipboard-write'], { origin })
  await button.click()
  await button.getByText('Copied', { exact: true }).waitFor()
  await secret.getByRole('status').getByText('Copied the secret').waitFor()

  await service.send(admin.companyId, `whsec_${btoa('another secret of 32 bytes, or so')}`, '{}')
  await send.getByText(`the current one ends in …${shown.slice(-4)}`).waitFor()
  await service.send(admin.companyId, shown, { type: 'a.b', data: {} })
  await send.getByText('First event received.').waitFor()
  expectClean()
})

test('a secret that somebody else has replaced meanwhile is replaced with the second try', async () => {
  const { admin, page, expectClean } = await openSignedIn()
  await press(page, 'Create signing secret')
  await say(page, 'Your new secret, version 1.')
  const companyName = (await page.locator('.company').textContent()) ?? ''
  await press(page, 'Replace secret…')
  // The page does not know yet.
  await page.route('**/webhook-secret/status', (route) => route.abort())
  await service.newSecret(admin)
  await fill(page, { 'Name of the company': companyName })
  await press(page, 'Replace secret')
  await page.getByRole('dialog').getByRole('alert').waitFor()
  await page.unroute('**/webhook-secret/status')
  await page.locator('dd', { hasText: /^2$/ }).waitFor()
  await press(page, 'Replace secret')
  await say(page, 'Your new secret, version 3.')
  expectClean()
})
