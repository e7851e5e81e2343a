import type { ColumnType, Generated } from 'kysely'
import type { EndReason } from '../errors.ts'

type Fixed<T> = ColumnType<T, T, never>
/** Written as JSON text, read as the parsed value. Readers state its type. */
type Json = ColumnType<unknown, string, never>

export type CompanyStatus = 'active' | 'suspended' | 'deleting'
type UserStatus = 'active' | 'disabled' | 'deleted'
export type SubscriptionStatus = 'trialing' | 'active' | 'past_due' | 'canceled' | 'suspended'
export type UserKind = 'person' | 'service'
export type TokenPurpose = 'verify' | 'reset' | 'invite' | 'confirm' | 'undo'
export type SessionKind = 'token' | 'cookie'
export type FactorKind = 'passkey' | 'totp'
export type SecondFactorPolicy = 'optional' | 'admins' | 'everyone'
export type ChallengePurpose = 'sign_in' | 'proof' | 'enrolment'

interface OfCompany {
  company_id: Fixed<string>
}

interface OfUser extends OfCompany {
  user_id: Fixed<string>
}

export interface Database {
  roles: {
    role: string
    permissions: string[]
  }
  plans: {
    plan: string
    features: string[]
  }
  companies: OfCompany & {
    name: string
    status: CompanyStatus
    created_at: Fixed<Date>
    session_epoch: Generated<number>
    session_epoch_reason: EndReason | null
    deletion_began_at: Date | null
    second_factor_policy: Generated<SecondFactorPolicy>
    handle: string | null
    session_idle_seconds: number | null
    session_max_age_seconds: number | null
  }
  /** The primary key is only the handle: no two companies can have the same. */
  company_handles: OfCompany & {
    handle: Fixed<string>
    released_at: Date | null
    reserved_until: Date | null
  }
  subscriptions: OfCompany & {
    plan: string
    status: SubscriptionStatus
    current_period_end: Date
    watched_since: Date | null
    watched_until: Date | null
  }
  users: OfUser & {
    email: string | null
    name: string
    search_name: string | null
    role: string
    assignments: string[]
    status: UserStatus
    password_hash: string
    email_verified_at: Date | null
    locked_out_at: Date | null
    guessing_told_at: Date | null
    created_at: Fixed<Date>
    session_epoch: Generated<number>
    session_epoch_reason: EndReason | null
    sessions_opened: Generated<string>
    kind: Generated<UserKind>
    last_sign_in_at: Date | null
    pending_email: string | null
    second_factors: Generated<FactorKind[]>
    passkey_handle: Buffer | null
    wrong_codes: Generated<number>
    factor_missing_told_at: Date | null
    password_epoch: Generated<number>
    former_password_until: Date | null
    invited_by: string | null
  }
  service_passwords: OfUser & {
    password_epoch: Fixed<number>
    created_by: Fixed<string | null>
    digest: Fixed<Buffer | null>
    hint: Fixed<string | null>
    created_at: Fixed<Date | null>
    last_used_at: Date | null
  }
  /** A view: users with their current permissions, company, and subscription. */
  accounts: OfUser & {
    email: string
    name: string
    role: string
    assignments: string[]
    user_status: UserStatus
    all_permissions: string[]
    company_name: string
    company_status: CompanyStatus
    subscription_status: SubscriptionStatus
    plan: string
    current_period_end: Date
    features: string[]
    user_epoch: number
    user_epoch_reason: EndReason | null
    company_epoch: number
    company_epoch_reason: EndReason | null
    user_kind: UserKind
    second_factors: FactorKind[]
    second_factor_policy: SecondFactorPolicy
    company_handle: string | null
    password_epoch: number
    former_password_until: Date | null
    session_idle_seconds: number | null
    session_max_age_seconds: number | null
  }
  sessions: OfUser & {
    session_id: Fixed<string>
    kind: Fixed<SessionKind>
    cookie_hash: Fixed<Buffer | null>
    generation: Generated<number>
    created_at: Fixed<Date>
    issued_at: Date
    expires_at: Date
    max_expires_at: Fixed<Date>
    ended_at: Date | null
    end_reason: EndReason | null
    rotated_at: Date | null
    recent_keys: Generated<(string | null)[]>
    window_started_at: Date | null
    window_rotations: Generated<number>
    user_agent: Fixed<string | null>
    ip_address: Fixed<string | null>
    network: Fixed<string | null>
    user_epoch: Generated<number>
    company_epoch: Generated<number>
    recent_spent_at: Generated<Date[]>
    auth_time: Date | null
    amr: string[] | null
    password_epoch: Generated<number>
  }
  known_clients: OfUser & {
    kind: Fixed<'network' | 'device'>
    digest: Fixed<Buffer>
    known_until: Date
  }
  second_factors: OfUser & {
    factor_id: Fixed<string>
    kind: Fixed<FactorKind>
    name: string
    created_at: Fixed<Date>
    confirmed_at: Date | null
    last_used_at: Date | null
    mailbox_proven: Generated<boolean>
    sealed_secret: string | null
    last_step: string | null
    credential_id: Fixed<Buffer | null>
    public_key: Fixed<Buffer | null>
    sign_count: string | null
    backup_eligible: Fixed<boolean | null>
    transports: string[] | null
  }
  recovery_codes: OfUser & {
    digest: Fixed<Buffer>
    key_id: Fixed<string>
  }
  second_factor_challenges: OfUser & {
    challenge_hash: Fixed<Buffer>
    purpose: Fixed<ChallengePurpose>
    mode: Fixed<SessionKind | null>
    session_id: Fixed<string | null>
    password_proven: Fixed<boolean>
    tries: Generated<number>
    answered_by: Buffer | null
    user_epoch: Fixed<number>
    company_epoch: Fixed<number>
    network: Fixed<string>
    ip_address: Fixed<string>
    created_at: Fixed<Date>
    expires_at: Fixed<Date>
  }
  used_passkey_challenges: {
    challenge_hash: Fixed<Buffer>
    expires_at: Fixed<Date>
  }
  mailbox_codes: OfUser & {
    digest: Buffer
    session_id: string | null
    tries: Generated<number>
    expires_at: Date
  }
  signing_secrets: OfCompany & {
    version: number
    sealed_secret: string
    hint: string
    created_at: Date
    created_by: string
    last_used_at: Date | null
  }
  refused_requests: OfCompany & {
    minute: Fixed<Date>
    reason: Fixed<string>
    network: Fixed<string>
    count: number
    first_at: Date
    last_at: Date
    ip_address: string
    webhook_id: string | null
    clock_skew_seconds: number | null
    is_genuine: boolean
  }
  former_signing_secrets: OfCompany & {
    version: number
    sealed_secret: string
    replaced_at: Date
  }
  events: OfCompany & {
    event_id: Fixed<string>
    type: Fixed<string>
    occurred_at: Fixed<Date | null>
    received_at: Fixed<Date>
    data: Json
    spellings: Fixed<string | null>
    /** Decimal text, like every bigint. 0 in rows from before positions existed. */
    feed_position: Generated<string>
  }
  watched_events: OfCompany & {
    position: Generated<string>
    event_id: Fixed<string>
    received_at: Fixed<Date>
    is_truncated: Fixed<boolean>
  }
  /** One row. See migrations/0017-event-feed.ts and 0026-restored-in-place.ts. */
  event_feed: {
    feed_id: string
    system_identifier: string
    timeline: string
    database_oid: number
    table_oid: number
    position_offset: string
    deleted_position: string
    deleted_company_id: string
    deleted_event_id: string
    audit_from: Date
  }
  signing_keys: {
    sequence: Fixed<number>
    key_id: Fixed<string>
    public_jwk: Json
    sealed_private_key: string
    created_at: Fixed<Date>
    signs_from: Fixed<Date>
    revoked_at: Date | null
  }
  platform_clients: {
    client_id: Fixed<string>
    name: Fixed<string>
    scopes: Fixed<string[]>
    secret_hash: Buffer
    former_secret_hash: Buffer | null
    created_at: Fixed<Date>
    last_used_at: Date | null
  }
  rate_counters: {
    counter: Fixed<string>
    hits: number
    window_ends_at: Date
  }
  audit_events: OfCompany & {
    audit_id: Fixed<string>
    occurred_at: Fixed<Date>
    action: Fixed<string>
    outcome: Fixed<string>
    actor: Fixed<string | null>
    subject: Fixed<string | null>
    session_id: Fixed<string | null>
    /** Write-only: a trigger stores it in `audit_addresses`. */
    ip_address: ColumnType<null, string | null, never>
    details: ColumnType<unknown, string | null, never>
  }
  audit_addresses: OfCompany & {
    audit_id: Fixed<string>
    occurred_at: Fixed<Date>
    ip_address: Fixed<string | null>
    email: Fixed<string | null>
  }
  /** Written by triggers on audit_events, refused_sign_ins, and service_sign_ins. */
  audit_days: OfCompany & {
    day: Fixed<Date>
    action: Fixed<string>
    outcome: Fixed<string>
    part: Fixed<string>
    count: Fixed<number>
  }
  refused_sign_ins: OfCompany & {
    minute: Fixed<Date>
    network: Fixed<string>
    kind: Fixed<string>
    count: number
    last_email: string
    last_at: Date
    /** This and the next two are null in rows of earlier releases. */
    reason: Fixed<string | null>
    user_id: Fixed<string | null>
    ip_address: string | null
  }
  service_sign_ins: OfCompany & {
    minute: Fixed<Date>
    user_id: Fixed<string>
    network: Fixed<string>
    audit_id: Fixed<string>
    count: number
    superseded: number
    ip_address: string
  }
  one_time_tokens: OfCompany & {
    purpose: Fixed<TokenPurpose>
    email: Fixed<string>
    token_hash: Buffer
    role: string | null
    created_at: Date
    expires_at: Date
    user_id: string | null
    request_number: string | null
    is_sent: Generated<boolean>
    is_factor_proven: Generated<boolean>
  }
  invitations: OfCompany & {
    invitation_id: Fixed<string>
    email: Fixed<string>
    role: string
    assignments: string[]
    /** Null: an operator. */
    invited_by: string | null
    mail_id: string
    created_at: Date
    expires_at: Date | null
    renewed_at: Date | null
  }
  mail_outbox: OfCompany & {
    mail_id: Fixed<string>
    kind: Fixed<string>
    recipient: Fixed<string>
    facts: Json
    network: Fixed<string | null>
    wider_network: Fixed<string | null>
    created_at: Fixed<Date>
    attempts: Generated<number>
    next_attempt_at: Date
    leased_until: Date | null
    turn: number | null
    counted_at: Date | null
    sent_at: Date | null
    failed_at: Date | null
    last_error: string | null
    request_number: Generated<string>
  }
}
