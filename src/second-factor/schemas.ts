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

const IN_ATTESTATION = 'Not read: it is in the attestation'
const credential = {
  id: bytes('The credential id'),
  rawId: bytes('The same'),
  type: field(Type.Literal('public-key'), 'Always `public-key`', 'public-key'),
  clientExtensionResults: Type.Object(
    {},
    { additionalProperties: true, description: 'Not read', examples: [{ credProps: { rk: true } }] },
  ),
  authenticatorAttachment: Type.Optional(
    field(Type.Union([Type.String({ maxLength: 100 }), Type.Null()]), 'Not read', 'platform'),
  ),
}

export const AssertionResponse = body(
  'PasskeyAssertion',
  'What `navigator.credentials.get` gives, by `toJSON()` (AuthenticationResponseJSON)',
  {
    ...credential,
    response: body('AssertionData', 'AuthenticatorAssertionResponseJSON (WebAuthn)', {
      clientDataJSON: bytes('What the browser says of the request'),
      authenticatorData: bytes('What the authenticator says'),
      signature: bytes('Its signature over both'),
      userHandle: Type.Optional(
        field(
          Type.Union([bytes('Whose passkey it is'), Type.Null(), Type.Literal('')]),
          'Whose passkey it is',
          'AAEC',
        ),
      ),
      attestationObject: Type.Optional(bytes('Not read')),
    }),
  },
)

const RegistrationResponse = body(
  'PasskeyRegistration',
  'What `navigator.credentials.create` gives, by `toJSON()` (RegistrationResponseJSON)',
  {
    ...credential,
    response: body('RegistrationData', 'AuthenticatorAttestationResponseJSON (WebAuthn)', {
      clientDataJSON: bytes('What the browser says of the request'),
      attestationObject: bytes('The new passkey'),
      transports: Type.Optional(
        Type.Array(Type.String({ pattern: '^[a-z-]{1,30}$', 'x-must': 'must be 1 to 30 of a-z and -' }), {
          maxItems: 10,
          description: 'How the authenticator is reached; given back to browsers',
          examples: [['internal', 'hybrid']],
        }),
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
  id: field(Uuid, 'The factor'),
  kind: field(
    Type.Union([Type.Literal('passkey'), Type.Literal('totp')]),
    'A passkey, or an authenticator app',
    'totp',
  ),
  name: field(Type.String(), 'What its owner calls it', 'Laptop'),
  createdAt: field(Time, 'When it was added'),
  lastUsedAt: field(
    Type.Union([Time, Type.Null()]),
    'When it last proved who its owner is; null if never',
    '2026-11-20T10:15:00.000Z',
  ),
})
export const FactorsReply = object('SecondFactorsReply', "The user's second factors", {
  secondFactors: Type.Array(SecondFactor, { description: 'The oldest first' }),
  recoveryCodes: field(Type.Integer(), 'How many recovery codes are left', 10),
  required: field(Type.Boolean(), 'Whether the policy of the company asks the user for one', true),
  enrolmentRequired: field(
    Type.Boolean(),
    'Whether this session is held until it has proven one: all else answers `second_factor_enrolment_required`',
    false,
  ),
  mailCodeRequired: field(Type.Boolean(), 'Whether adding one needs a mailed code: there is none yet', false),
})

export const MailCodeBody = optionalBody(
  body('MailCodeBody', 'What a code is mailed for; `factor` by default', {
    for: Type.Optional(
      field(
        Type.Union([Type.Literal('factor'), Type.Literal('email'), Type.Literal('admin')]),
        'What the code is for: the first second factor, a new email address, or a new admin',
        'email',
      ),
    ),
  }),
)
export const TotpBody = optionalBody(body('TotpBody', 'A new authenticator app', { mailCode: MailCode }))
export const TotpReply = object('TotpReply', 'What the authenticator app is given', {
  id: field(Uuid, 'The factor, which is in force once its first code is confirmed'),
  secret: field(
    Type.String(),
    'In base32, to type it in; shown this once',
    'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
  ),
  uri: field(Type.String(), 'The same for a QR code', 'otpauth://totp/Acme:ada%40acme.example?secret=…'),
})
export const FactorParams = Type.Object({ id: field(Id, 'The factor') })
export const ConfirmBody = body('ConfirmTotpBody', 'A code of the new authenticator app', {
  code: field(Type.String({ minLength: 1, maxLength: 64 }), 'The 6 digits that the app shows', '492039'),
})

const RecoveryCodes = field(
  Type.Array(Type.String()),
  'Ten codes, each of which works once in place of a factor; shown this once',
  ['7QK2-9F3M-X4TA-0PBN-61RE-WZ5C'],
)
export const ConfirmReply = object('ConfirmTotpReply', 'Recovery codes, if it is the first factor', {
  recoveryCodes: Type.Optional(RecoveryCodes),
})
export const PasskeyBody = body('PasskeyBody', 'A new passkey', {
  response: RegistrationResponse,
  name: field(Type.String({ minLength: 1, maxLength: 100 }), 'What its owner calls it', 'Laptop'),
  mailCode: MailCode,
})
export const CreationOptionsReply = object('CreationOptionsReply', 'What a browser makes a passkey with', {
  passkeyOptions: Type.Object(
    {},
    {
      additionalProperties: true,
      description: 'For `navigator.credentials.create`, as they are (WebAuthn)',
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
  'The passkey, and recovery codes if it is the first factor',
  { id: field(Uuid, 'The factor'), recoveryCodes: Type.Optional(RecoveryCodes) },
)
export const RecoveryCodesReply = object('RecoveryCodesReply', 'New recovery codes; the old ones are void', {
  recoveryCodes: RecoveryCodes,
})

const Policy = field(
  Type.Union([Type.Literal('optional'), Type.Literal('admins'), Type.Literal('everyone')]),
  'Whose sessions must have proven a second factor',
  'admins',
)
export const PolicyBody = body('SecurityBody', 'What is to be changed', { secondFactor: Policy })
export const PolicyReply = object('SecurityReply', 'The policy of the company, and whom each setting holds', {
  secondFactor: Policy,
  concerned: object('Concerned', 'How many members each setting holds until they add a second factor', {
    optional: field(Type.Integer(), 'None', 0),
    admins: field(Type.Integer(), 'Active admins without a second factor', 1),
    everyone: field(Type.Integer(), 'Active people without a second factor', 5),
  }),
})
