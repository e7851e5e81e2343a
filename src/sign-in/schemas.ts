import { Type } from '@fastify/type-provider-typebox'
import { Company, Email, field, Id, object, Password } from '../http/fields.ts'
import { AssertionResponse, METHODS } from '../second-factor/schemas.ts'
import { SessionReply, TokenReply } from '../session/schemas.ts'

const closed = { additionalProperties: false } as const

export const LoginBody = Type.Object(
  {
    companyId: Type.Optional(
      field(Id, 'The company to sign in to; it is in the answer to a registration, and in mails'),
    ),
    company: Type.Optional(Company),
    email: Email,
    password: field(Password, "The user's password, compared after NFC"),
  },
  {
    ...closed,
    title: 'LoginBody',
    description: 'Who signs in',
    examples: [{ company: 'acme-4821', email: 'ada@acme.example', password: 'a password of her own' }],
  },
)

export const LoginReply = Type.Union([TokenReply, SessionReply], {
  description:
    '`TokenReply` in token mode, `SessionReply` in cookie mode, as `X-Session-Mode` says with which the sign-in began',
})

const modeHeaders = (description: string) =>
  Type.Object({
    'x-session-mode': Type.Optional(
      Type.Union([Type.Literal('token'), Type.Literal('cookie')], { description, examples: ['token'] }),
    ),
  })
export const LoginHeaders = modeHeaders(
  'How the session is carried: by tokens in the body (the default), or by a cookie',
)
export const ChallengeModeHeaders = modeHeaders(
  'The challenge decides how the session is carried; if it is sent, it must be the same',
)

const Challenge = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'As it was given, within 5 minutes',
  examples: ['3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'],
})
const Code = Type.String({
  minLength: 1,
  maxLength: 64,
  description: 'The 6 digits of an authenticator app, or a recovery code. Spaces and dashes are ignored',
  examples: ['492039'],
})

const CodeMethod = field(
  Type.Union([Type.Literal('totp'), Type.Literal('recovery_code')]),
  'Which kind of code it is',
  'totp',
)
const PasskeyMethod = field(Type.Literal('passkey'), 'By passkey', 'passkey')

const CodeProof = Type.Object(
  { challenge: Challenge, method: CodeMethod, code: Code },
  { ...closed, title: 'CodeProof', description: 'A second factor that is a code' },
)
const PasskeyProof = Type.Object(
  { challenge: Challenge, method: PasskeyMethod, response: AssertionResponse },
  { ...closed, title: 'PasskeyProof', description: 'A second factor that is a passkey' },
)

export const SecondFactorBody = Type.Union([CodeProof, PasskeyProof], {
  description: '`CodeProof` or `PasskeyProof`, as `method` says',
})

export const PasskeyLoginBody = Type.Object(
  { challenge: Challenge, response: AssertionResponse },
  { ...closed, title: 'PasskeyLoginBody', description: 'A passkey, which says who signs in and where' },
)

const PasswordProof = Type.Object(
  { password: field(Password, 'The password. A wrong one counts as a failed sign-in') },
  { ...closed, title: 'PasswordProof', description: 'Proof of who the user is' },
)
export const ReauthenticateBody = Type.Union([PasswordProof, CodeProof, PasskeyProof], {
  description: '`PasswordProof` begins; a member with a second factor completes with one of the others',
})

const PasskeyOptions = Type.Object(
  {},
  {
    additionalProperties: true,
    description: 'For the browser, as they are (WebAuthn)',
    examples: [{ challenge: '3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', rpId: 'auth.example.com' }],
  },
)
const Methods = field(Type.Array(Type.String({ enum: [...METHODS] })), 'What it can be answered by', [
  'totp',
  'recovery_code',
])

export const ChallengeReply = object('ChallengeReply', 'What a proof is completed with', {
  challenge: Challenge,
  methods: Methods,
  passkeyOptions: Type.Optional(PasskeyOptions),
})
export const PasskeyChallengeReply = object(
  'PasskeyChallengeReply',
  'What a browser asks for a passkey with',
  { challenge: Challenge, passkeyOptions: PasskeyOptions },
)
