import { Type } from '@fastify/type-provider-typebox'
import { optionalBody } from '../http/body.ts'
import { field, Id, MailCode, Time, Uuid } from '../http/fields.ts'

const closed = { additionalProperties: false } as const

export const METHODS = ['passkey', 'totp', 'recovery_code'] as const
export type Method = (typeof METHODS)[number]

/** In what browsers give of a passkey, as WebAuthn level 3 writes it in JSON. The limit of the body bounds them. */
const bytes = (description: string) =>
  Type.String({
    pattern: '^[A-Za-z0-9_-]*$',
    'x-must': 'must be base64url without padding',
    minLength: 1,
    maxLength: 12_000,
    description,
    examples: ['AAEC'],
  })
const Extensions = Type.Object(
  {},
  { additionalProperties: true, description: 'Not read', examples: [{ credProps: { rk: true } }] },
)
const Attachment = Type.Optional(
  Type.Union([Type.String({ maxLength: 100 }), Type.Null()], {
    description: 'Not read',
    examples: ['platform'],
  }),
)

const credential = {
  id: bytes('The credential id'),
  rawId: bytes('The same'),
  type: Type.Literal('public-key', { description: 'Always `public-key`', examples: ['public-key'] }),
  clientExtensionResults: Extensions,
  authenticatorAttachment: Attachment,
}

export const AssertionResponse = Type.Object(
  {
    ...credential,
    response: Type.Object(
      {
        clientDataJSON: bytes('What the browser says of the request'),
        authenticatorData: bytes('What the authenticator says'),
        signature: bytes('Its signature over both'),
        userHandle: Type.Optional(
          Type.Union([bytes('Whose passkey it is'), Type.Null(), Type.Literal('')], {
            description: 'Whose passkey it is',
            examples: ['AAEC'],
          }),
        ),
        attestationObject: Type.Optional(bytes('Not read')),
      },
      { ...closed, title: 'AssertionData', description: 'AuthenticatorAssertionResponseJSON (WebAuthn)' },
    ),
  },
  {
    ...closed,
    title: 'PasskeyAssertion',
    description: 'What `navigator.credentials.get` gives, by `toJSON()` (AuthenticationResponseJSON)',
  },
)

export const RegistrationResponse = Type.Object(
  {
    ...credential,
    response: Type.Object(
      {
        clientDataJSON: bytes('What the browser says of the request'),
        attestationObject: bytes('The new passkey'),
        transports: Type.Optional(
          Type.Array(Type.String({ pattern: '^[a-z-]{1,30}$', 'x-must': 'must be 1 to 30 of a-z and -' }), {
            maxItems: 10,
            description: 'How the authenticator is reached; given back to browsers',
            examples: [['internal', 'hybrid']],
          }),
        ),
        authenticatorData: Type.Optional(bytes('Not read: it is in the attestation')),
        publicKey: Type.Optional(
          Type.Union([bytes('Not read: it is in the attestation'), Type.Null()], {
            description: 'Not read: it is in the attestation',
            examples: ['AAEC'],
          }),
        ),
        publicKeyAlgorithm: Type.Optional(
          Type.Integer({ description: 'Not read: it is in the attestation', examples: [-7] }),
        ),
      },
      {
        ...closed,
        title: 'RegistrationData',
        description: 'AuthenticatorAttestationResponseJSON (WebAuthn)',
      },
    ),
  },
  {
    ...closed,
    title: 'PasskeyRegistration',
    description: 'What `navigator.credentials.create` gives, by `toJSON()` (RegistrationResponseJSON)',
  },
)

const FactorKind = Type.Union([Type.Literal('passkey'), Type.Literal('totp')], {
  description: 'A passkey, or an authenticator app',
  examples: ['totp'],
})
export const FactorsReply = Type.Object(
  {
    secondFactors: Type.Array(
      Type.Object(
        {
          id: field(Uuid, 'The factor'),
          kind: FactorKind,
          name: field(Type.String(), 'What its owner calls it', 'Laptop'),
          createdAt: field(Time, 'When it was added'),
          lastUsedAt: Type.Union([Time, Type.Null()], {
            description: 'When it last proved who its owner is; null if never',
            examples: ['2026-11-20T10:15:00.000Z'],
          }),
        },
        { title: 'SecondFactor', description: 'An authenticator app or a passkey' },
      ),
      { description: 'The oldest first' },
    ),
    recoveryCodes: field(Type.Integer(), 'How many recovery codes are left', 10),
    required: field(Type.Boolean(), 'Whether the policy of the company asks the user for one', true),
    enrolmentRequired: field(
      Type.Boolean(),
      'Whether this session is held until it has proven one: all else answers `second_factor_enrolment_required`',
      false,
    ),
    mailCodeRequired: field(
      Type.Boolean(),
      'Whether adding one needs a mailed code: there is none yet',
      false,
    ),
  },
  { title: 'SecondFactorsReply', description: "The user's second factors" },
)

export const MailCodeBody = optionalBody(
  Type.Object(
    {
      for: Type.Optional(
        Type.Union([Type.Literal('factor'), Type.Literal('email'), Type.Literal('admin')], {
          description: 'What the code is for: the first second factor, a new email address, or a new admin',
          examples: ['email'],
        }),
      ),
    },
    { ...closed, title: 'MailCodeBody', description: 'What a code is mailed for; `factor` by default' },
  ),
)
export const TotpBody = optionalBody(
  Type.Object(
    { mailCode: MailCode },
    { ...closed, title: 'TotpBody', description: 'A new authenticator app' },
  ),
)
export const TotpReply = Type.Object(
  {
    id: field(Uuid, 'The factor, which is in force once its first code is confirmed'),
    secret: field(
      Type.String(),
      'In base32, to type it in; shown this once',
      'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
    ),
    uri: field(Type.String(), 'The same for a QR code', 'otpauth://totp/Acme:ada%40acme.example?secret=…'),
  },
  { title: 'TotpReply', description: 'What the authenticator app is given' },
)
export const FactorParams = Type.Object({ id: field(Id, 'The factor') })
export const ConfirmBody = Type.Object(
  { code: field(Type.String({ minLength: 1, maxLength: 64 }), 'The 6 digits that the app shows', '492039') },
  { ...closed, title: 'ConfirmTotpBody', description: 'A code of the new authenticator app' },
)

const RecoveryCodes = Type.Array(Type.String(), {
  description: 'Ten codes, each of which works once in place of a factor; shown this once',
  examples: [['7QK2-9F3M-X4TA-0PBN-61RE-WZ5C']],
})
export const ConfirmReply = Type.Object(
  { recoveryCodes: Type.Optional(RecoveryCodes) },
  { title: 'ConfirmTotpReply', description: 'Recovery codes, if it is the first factor' },
)
export const PasskeyBody = Type.Object(
  {
    response: RegistrationResponse,
    name: field(Type.String({ minLength: 1, maxLength: 100 }), 'What its owner calls it', 'Laptop'),
    mailCode: MailCode,
  },
  { ...closed, title: 'PasskeyBody', description: 'A new passkey' },
)
export const CreationOptionsReply = Type.Object(
  {
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
  },
  { title: 'CreationOptionsReply', description: 'What a browser makes a passkey with' },
)
export const PasskeyReply = Type.Object(
  { id: field(Uuid, 'The factor'), recoveryCodes: Type.Optional(RecoveryCodes) },
  { title: 'PasskeyReply', description: 'The passkey, and recovery codes if it is the first factor' },
)
export const RecoveryCodesReply = Type.Object(
  { recoveryCodes: RecoveryCodes },
  { title: 'RecoveryCodesReply', description: 'New recovery codes; the old ones are void' },
)

const Policy = Type.Union([Type.Literal('optional'), Type.Literal('admins'), Type.Literal('everyone')], {
  description: 'Whose sessions must have proven a second factor',
  examples: ['admins'],
})
const Count = (description: string, example: number) => field(Type.Integer(), description, example)
export const PolicyBody = Type.Object(
  { secondFactor: Policy },
  { ...closed, title: 'SecurityBody', description: 'What is to be changed' },
)
export const PolicyReply = Type.Object(
  {
    secondFactor: Policy,
    concerned: Type.Object(
      {
        optional: Count('None', 0),
        admins: Count('Active admins without a second factor', 1),
        everyone: Count('Active people without a second factor', 5),
      },
      {
        title: 'Concerned',
        description: 'How many members each setting holds until they add a second factor',
      },
    ),
  },
  { title: 'SecurityReply', description: 'The policy of the company, and whom each setting holds' },
)
