/** The logo: a gate. scripts/build.ts creates the favicon from the same paths. */
export function Mark() {
  return (
    <svg class="mark" width="28" height="28" viewBox="0 0 32 32" aria-hidden>
      <rect width="32" height="32" rx="7" />
      <path d="M7 26V13a9 9 0 0 1 18 0v13M16 5v21M7 18h18" />
    </svg>
  )
}
