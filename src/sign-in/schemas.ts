import { Type } from '@fastify/type-provider-typebox'
import { Company, Email, field, Id, object, Password } from '../http/fields.ts'
import { AssertionResponse, METHODS } from '../second-factor/schemas.ts'
import { SessionReply, TokenReply } from '../session/schemas.ts'

const closed = { additionalProperties: false } as const

export const LoginBody = Type.Object(
  {
    companyId: Type.Optional(
      field(Id, 'Company ID from the registration response. Send either this or `company`'),
    ),
    company: Type.Optional(Company),
    email: Email,
    password: field(Password, 'Password of the user, compared after NFC normalization'),
  },
  {
    ...closed,
    title: 'LoginBody',
    description: 'Company, email, and password',
    examples: [{ company: 'acme-4821', email: 'ada@acme.example', password: 'correct horse battery staple' }],
  },
)

export const LoginReply = Type.Union([TokenReply, SessionReply], {
  description: '`TokenReply` in token mode, `SessionReply` in cookie mode',
})

const modeHeaders = (description: string) =>
  Type.Object({
    'x-session-mode': Type.Optional(
      Type.Union([Type.Literal('token'), Type.Literal('cookie')], { description, examples: ['token'] }),
    ),
  })
export const LoginHeaders = modeHeaders(
  'Session mode: tokens in the response body (the default), or a cookie',
)
export const ChallengeModeHeaders = modeHeaders('Session mode. If sent, it must be the mode of the challenge')

const Challenge = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'Challenge, valid for 5 minutes. Send it back unchanged',
  examples: ['3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'],
})
const Code = Type.String({
  minLength: 1,
  maxLength: 64,
  description: 'Six digits from an authenticator app, or a recovery code. Spaces and dashes are ignored',
  examples: ['492039'],
})

const CodeMethod = field(
  Type.Union([Type.Literal('totp'), Type.Literal('recovery_code')]),
  'Kind of code',
  'totp',
)
const PasskeyMethod = field(Type.Literal('passkey'), 'Always `passkey`', 'passkey')

const CodeProof = Type.Object(
  { challenge: Challenge, method: CodeMethod, code: Code },
  { ...closed, title: 'CodeProof', description: 'A code and its challenge' },
)
const PasskeyProof = Type.Object(
  { challenge: Challenge, method: PasskeyMethod, response: AssertionResponse },
  { ...closed, title: 'PasskeyProof', description: 'A passkey response and its challenge' },
)

export const SecondFactorBody = Type.Union([CodeProof, PasskeyProof], {
  description: '`CodeProof` or `PasskeyProof`, depending on `method`',
})

export const PasskeyLoginBody = Type.Object(
  { challenge: Challenge, response: AssertionResponse },
  {
    ...closed,
    title: 'PasskeyLoginBody',
    description: 'A passkey response and its challenge. The passkey identifies the user and company',
  },
)

const PasswordProof = Type.Object(
  { password: field(Password, 'Current password of the user') },
  { ...closed, title: 'PasswordProof', description: 'Re-authentication with the password' },
)
export const ReauthenticateBody = Type.Union([PasswordProof, CodeProof, PasskeyProof], {
  description: '`PasswordProof` to start; `CodeProof` or `PasskeyProof` to complete a challenge',
})

const PasskeyOptions = Type.Object(
  {},
  {
    additionalProperties: true,
    description: 'Options for `navigator.credentials.get` (WebAuthn, PublicKeyCredentialRequestOptionsJSON)',
    examples: [{ challenge: '3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', rpId: 'auth.example.com' }],
  },
)
const Methods = field(
  Type.Array(Type.String({ enum: [...METHODS] })),
  'Methods that can complete the challenge',
  ['totp', 'recovery_code'],
)

export const ChallengeReply = object('ChallengeReply', 'Challenge for a second factor', {
  challenge: Challenge,
  methods: Methods,
  passkeyOptions: Type.Optional(PasskeyOptions),
})
export const PasskeyChallengeReply = object('PasskeyChallengeReply', 'Challenge and options for a passkey', {
  challenge: Challenge,
  passkeyOptions: PasskeyOptions,
})
