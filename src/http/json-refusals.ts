import { Problem } from '../errors.ts'

/** The message quotes nothing from the body. */
export function malformed(message: string): Problem {
  return new Problem('malformed_body', message)
}

export function notJson(): Problem {
  return malformed('The body is not valid JSON.')
}

export function tooDeep(levels: number): Problem {
  return malformed(`The body is nested deeper than ${levels} levels.`)
}

export function inexact(path: string): Problem {
  const message = 'must be a number that a 64-bit float holds as written'
  return refusedNumber(
    'A number has more digits, or is larger or smaller, than a 64-bit float holds.',
    path,
    message,
  )
}

export function outOfRange(path: string): Problem {
  const message = 'must be in the range of a 64-bit float and have at most 400 characters'
  return refusedNumber('A number is beyond the range of a 64-bit float, or too long.', path, message)
}

function refusedNumber(what: string, path: string, message: string): Problem {
  return new Problem('invalid_request', `${what} Send it as a string.`, { errors: [{ path, message }] })
}
