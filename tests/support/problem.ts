import { expect } from 'vitest'

/** Checks that an error response is a problem (RFC 9457) with all of our members and no other. */
export function expectProblem(
  { status, headers, body }: { status: number; headers: Record<string, unknown>; body: unknown },
  expected: readonly [status: number, code: string],
): void {
  const problem = typeof body === 'string' ? JSON.parse(body) : body
  expect([status, problem.code]).toEqual(expected)
  expect(headers['content-type']).toBe('application/problem+json; charset=utf-8')
  expect(problem).toEqual({
    type: `urn:gatehouse:problem:${problem.code}`,
    title: expect.stringMatching(/\S/),
    // The proxy's own problems do not have it.
    ...('help' in problem && { help: expect.stringMatching(`/docs/errors#${problem.code}$`) }),
    status,
    detail: expect.stringMatching(/\S/),
    category: expect.stringMatching(
      /^(validation|authentication|permission|billing|rate-limit|availability)$/,
    ),
    code: problem.code,
    ...(problem.error && { error: expect.stringMatching(/^[a-z_]+$/) }),
    requestId: headers['x-request-id'],
    ...(problem.code === 'invalid_request' &&
      problem.errors && {
        errors: expect.arrayContaining([{ path: expect.any(String), message: expect.stringMatching(/\S/) }]),
      }),
  })
}

/** Checks that a response refuses exactly one field. */
export function expectField(answer: Parameters<typeof expectProblem>[0], path: string): void {
  expectProblem(answer, [400, 'invalid_request'])
  const { errors } = answer.body as { errors: { path: string }[] }
  expect(errors.map((error) => error.path)).toEqual([path])
}
