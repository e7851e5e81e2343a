import { expect, test } from 'vitest'
import { openDemoCompany, welcome } from '../../src/process/local/demo-company.ts'
import { NEW_PASSWORD, useSharedService } from '../support/test-service.ts'

test("a start prints the demo company's credentials while they work", async () => {
  const { service } = await useSharedService()
  const open = () => openDemoCompany(service.config.dataDir, service.context)
  const demo = await open()
  const { accessToken: token } = await service.loginAs(demo)
  expect(welcome('http://127.0.0.1:3000', await open())).toContain(`password  ${demo.password}`)

  const json = { currentPassword: demo.password, newPassword: NEW_PASSWORD }
  expect((await service.call('/auth/password/change', { token, json })).status).toBe(204)
  // Also tests the address for HOST=::.
  for (const url of ['http://127.0.0.1:3000', 'http://[::]:3000', 'http://[::1]:3000']) {
    const text = welcome(url, await open())
    expect(text).not.toContain(demo.password)
    expect(text).toContain(`http://localhost:3000/sign-in#company=${demo.handle}\n`)
  }
})
