/** What a user signs in with: exactly the body of the request. */
export interface Credentials {
  companyId: string
  email: string
  password: string
}

/** A session that has not ended, with its current tokens. Operations update it when they rotate these. */
export interface LiveSession {
  id: string
  accessToken: string
  /** By `Date.now()`. */
  accessTokenIssuedAt: number
  refreshToken: string
}
