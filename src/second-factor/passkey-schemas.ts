import { Type } from '@sinclair/typebox'

/** What browsers give of a passkey, as WebAuthn level 3 writes it in JSON. */

const closed = { additionalProperties: false } as const

/** Bytes of WebAuthn in base64url. The limit of the body bounds them. */
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
