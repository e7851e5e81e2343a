import { Type } from '@sinclair/typebox'
import { body, field, Id, MailCode, object, optionalBody, Time, Uuid } from '../http/fields.ts'

export const METHODS = ['passkey', 'totp', 'recovery_code'] as const
export type Method = (typeof METHODS)[number]

/** As in WebAuthn's JSON. The body limit bounds them together. */
const bytes = (description: string) =>
  Type.String({
    pattern: '^[A-Za-z0-9_-]*$',
    'x-must': 'must be base64url without padding',
    minLength: 1,
    maxLength: 12_000,
    description,
    examples: ['AAEC'],
  })

const IN_ATTESTATION = 'Ignored, because the attestation contains it'
const credential = {
  id: bytes('Credential ID'),
  rawId: bytes('Same as `id`'),
  type: field(Type.Literal('public-key'), 'Always `public-key`', 'public-key'),
  clientExtensionResults: Type.Object(
    {},
    { additionalProperties: true, description: 'Ignored', examples: [{ credProps: { rk: true } }] },
  ),
  authenticatorAttachment: Type.Optional(
    field(Type.Union([Type.String({ maxLength: 100 }), Type.Null()]), 'Ignored', 'platform'),
  ),
}

export const AssertionResponse = body(
  'PasskeyAssertion',
  'Result of `navigator.credentials.get`, by `toJSON()` (WebAuthn, AuthenticationResponseJSON)',
  {
    ...credential,
    response: body('AssertionData', 'AuthenticatorAssertionResponseJSON (WebAuthn)', {
      clientDataJSON: bytes('Client data from the browser'),
      authenticatorData: bytes('Authenticator data'),
      signature: bytes('Signature over the authenticator data and the hash of the client data'),
      userHandle: Type.Optional(
        field(
          Type.Union([bytes('User handle of the passkey'), Type.Null(), Type.Literal('')]),
          'User handle of the passkey',
          'AAEC',
        ),
      ),
      attestationObject: Type.Optional(bytes('Ignored')),
    }),
  },
)

const RegistrationResponse = body(
  'PasskeyRegistration',
  'Result of `navigator.credentials.create`, by `toJSON()` (WebAuthn, RegistrationResponseJSON)',
  {
    ...credential,
    response: body('RegistrationData', 'AuthenticatorAttestationResponseJSON (WebAuthn)', {
      clientDataJSON: bytes('Client data from the browser'),
      attestationObject: bytes('Attestation object with the new passkey'),
      transports: Type.Optional(
        Type.Array(
          Type.String({ pattern: '^[a-z-]{1,30}$', 'x-must': 'must be 1 to 30 characters from a-z and -' }),
          {
            maxItems: 10,
            description: 'Transports of the authenticator, kept for later sign-ins',
            examples: [['internal', 'hybrid']],
          },
        ),
      ),
      authenticatorData: Type.Optional(bytes(IN_ATTESTATION)),
      publicKey: Type.Optional(
        field(Type.Union([bytes(IN_ATTESTATION), Type.Null()]), IN_ATTESTATION, 'AAEC'),
      ),
      publicKeyAlgorithm: Type.Optional(field(Type.Integer(), IN_ATTESTATION, -7)),
    }),
  },
)

const SecondFactor = object('SecondFactor', 'An authenticator app or a passkey', {
  id: field(Uuid, 'Second factor ID'),
  kind: field(
    Type.Union([Type.Literal('passkey'), Type.Literal('totp')]),
    'Passkey (`passkey`) or authenticator app (`totp`)',
    'totp',
  ),
  name: field(Type.String(), 'Display name', 'Laptop'),
  createdAt: field(Time, 'Time when it was added'),
  lastUsedAt: field(
    Type.Union([Time, Type.Null()]),
    'Time of the last use, or null if there is none',
    '2026-11-20T10:15:00.000Z',
  ),
})
export const FactorsReply = object('SecondFactorsReply', "The user's second factors", {
  secondFactors: Type.Array(SecondFactor, { description: 'Oldest first' }),
  recoveryCodes: field(Type.Integer(), 'Number of unused recovery codes', 10),
  required: field(Type.Boolean(), 'Whether the company requires the user to have a second factor', true),
  enrolmentRequired: field(
    Type.Boolean(),
    'Whether this session must use a second factor before it can call other endpoints (`second_factor_enrolment_required`)',
    false,
  ),
  mailCodeRequired: field(
    Type.Boolean(),
    'Whether adding a second factor requires an emailed code, because there is none yet',
    false,
  ),
})

export const MailCodeBody = optionalBody(
  body('MailCodeBody', 'Purpose of the code, `factor` by default', {
    for: Type.Optional(
      field(
        Type.Union([Type.Literal('factor'), Type.Literal('email'), Type.Literal('admin')]),
        'Purpose of the code: the first second factor, a new email, or a new admin',
        'email',
      ),
    ),
  }),
)
export const TotpBody = optionalBody(body('TotpBody', 'A new authenticator app', { mailCode: MailCode }))
export const TotpReply = object('TotpReply', 'Secret for the authenticator app', {
  id: field(Uuid, 'ID of the second factor, which works after you confirm its first code'),
  secret: field(
    Type.String(),
    'Secret to enter by hand, in base32. Shown only once',
    'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
  ),
  uri: field(
    Type.String(),
    'Secret as a URI for a QR code',
    'otpauth://totp/Acme:ada%40acme.example?secret=…',
  ),
})
export const FactorParams = Type.Object({ id: field(Id, 'Second factor ID') })
export const ConfirmBody = body('ConfirmTotpBody', 'First code of the new authenticator app', {
  code: field(Type.String({ minLength: 1, maxLength: 64 }), 'Six digits that the app shows', '492039'),
})

const RecoveryCodes = field(
  Type.Array(Type.String()),
  'Ten single-use codes that replace a second factor. Shown only once',
  ['7QK2-9F3M-X4TA-0PBN-61RE-WZ5C'],
)
export const ConfirmReply = object('ConfirmTotpReply', 'Recovery codes, if this is the first second factor', {
  recoveryCodes: Type.Optional(RecoveryCodes),
})
export const PasskeyBody = body('PasskeyBody', 'A new passkey', {
  response: RegistrationResponse,
  name: field(Type.String({ minLength: 1, maxLength: 100 }), 'Display name', 'Laptop'),
  mailCode: MailCode,
})
export const CreationOptionsReply = object('CreationOptionsReply', 'Options to create a passkey', {
  passkeyOptions: Type.Object(
    {},
    {
      additionalProperties: true,
      description:
        'Options for `navigator.credentials.create` (WebAuthn, PublicKeyCredentialCreationOptionsJSON)',
      examples: [
        {
          challenge: '3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
          rp: { id: 'auth.example.com', name: 'gatehouse' },
          user: { id: 'AAEC', name: 'ada@acme.example', displayName: 'Ada Lovelace' },
          pubKeyCredParams: [{ alg: -7, type: 'public-key' }],
        },
      ],
    },
  ),
})
export const PasskeyReply = object(
  'PasskeyReply',
  'The passkey, and recovery codes if this is the first second factor',
  { id: field(Uuid, 'Second factor ID'), recoveryCodes: Type.Optional(RecoveryCodes) },
)
export const RecoveryCodesReply = object(
  'RecoveryCodesReply',
  'New recovery codes, which replace the previous ones',
  { recoveryCodes: RecoveryCodes },
)

const Policy = field(
  Type.Union([Type.Literal('optional'), Type.Literal('admins'), Type.Literal('everyone')]),
  'Members who must use a second factor',
  'admins',
)
const limit = (minimum: number, maximum: number, description: string, example: number) =>
  field(
    Type.Union([Type.Integer({ minimum, maximum }), Type.Null()]),
    `${description} in seconds. Null, or a value above the default, for the default`,
    example,
  )
const sessionLimits = {
  sessionIdleSeconds: limit(300, 604_800, 'How long members stay signed in without use,', 3_600),
  sessionMaxAgeSeconds: limit(900, 2_592_000, 'How long members stay signed in at most,', 43_200),
}
export const PolicyBody = body(
  'SecurityBody',
  'Changes to second-factor policy and session limits',
  {
    secondFactor: Type.Optional(Policy),
    sessionIdleSeconds: Type.Optional(sessionLimits.sessionIdleSeconds),
    sessionMaxAgeSeconds: Type.Optional(sessionLimits.sessionMaxAgeSeconds),
  },
  { minProperties: 1 },
)
export const PolicyReply = object('SecurityReply', 'Second-factor policy and session limits', {
  secondFactor: Policy,
  ...sessionLimits,
  concerned: object('Concerned', 'Number of members who would have to add a second factor, by setting', {
    optional: field(Type.Integer(), 'Always 0', 0),
    admins: field(Type.Integer(), 'Active admins without a second factor', 1),
    everyone: field(Type.Integer(), 'Active members without a second factor, except service accounts', 5),
  }),
})
