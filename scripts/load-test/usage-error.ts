/** A mistake that only the person who runs the load test can correct. It is printed without a stack trace. */
export class UsageError extends Error {}
