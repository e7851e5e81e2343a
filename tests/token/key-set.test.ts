import { expect, test } from 'vitest'
import { decode, partsOf } from '../support/forge.ts'
import { useSharedService } from '../support/test-service.ts'

/** The contents of the key set and of tokens. http/docs.test.ts verifies tokens offline. */

const { service } = await useSharedService()
const admin = await service.addCompany()
const { accessToken, refreshToken, session, user, permissions } = await service.loginAs(admin)
const keySet = () => service.call('/.well-known/jwks.json', { method: 'GET' })
const { body: keys } = await keySet()
const issuer = `${service.config.publicUrl}/api`
const nowSeconds = Math.floor(service.clock.now() / 1000)
const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

test('the key set is cacheable, with only public members (RFC 7517, 9.2; RFC 9111, 5.2.2; ASVS 11.6.1, 13.3.1)', async () => {
  expect((await keySet()).headers['cache-control']).toBe('public, max-age=300')
  const base64url = (bytes: number) =>
    expect.stringMatching(new RegExp(`^[\\w-]{${Math.ceil((bytes * 4) / 3)}}$`))
  const [x, y, kid] = [32, 32, 12].map(base64url)
  expect(keys).toStrictEqual({ keys: [{ kty: 'EC', crv: 'P-256', x, y, kid, alg: 'ES256', use: 'sig' }] })
})

test('an access token has a unique ID, and only its own claims (RFC 7519, 4.1.7; RFC 8725, section 3; ASVS 9.2.2, 9.2.4)', async () => {
  const [header, payload] = partsOf(accessToken)
  expect(decode(header)).toStrictEqual({ alg: 'ES256', typ: 'at+jwt', kid: keys.keys[0].kid })
  expect(decode(payload)).toStrictEqual({
    iss: issuer,
    aud: 'gatehouse',
    sub: user.id,
    cid: admin.companyId,
    sid: session.id,
    role: 'admin',
    perms: permissions,
    amr: ['pwd'],
    auth_time: nowSeconds,
    jti: expect.stringMatching(UUID_V7),
    iat: nowSeconds,
    exp: nowSeconds + 900,
  })
  const { body } = await service.refresh(refreshToken)
  expect(decode(partsOf(body.accessToken)[1])['jti']).not.toBe(decode(payload)['jti'])
})

test('a refresh token has only its own claims (ASVS 9.2.2, 9.2.4)', async () => {
  const first = await service.loginAs(admin)
  const { body: second } = await service.refresh(first.refreshToken)
  for (const [gen, token] of [first.refreshToken, second.refreshToken].entries()) {
    const [header, payload] = partsOf(token)
    const kid = service.config.masterKeys[0]?.id
    expect(decode(header)).toStrictEqual({ alg: 'HS256', typ: 'rt+jwt', kid })
    expect(decode(payload)).toStrictEqual({
      iss: issuer,
      aud: 'gatehouse/refresh',
      sub: user.id,
      cid: admin.companyId,
      sid: first.session.id,
      gen,
      jti: `${first.session.id}.${gen}`,
      iat: nowSeconds,
      exp: nowSeconds + 604_800,
    })
  }
})
