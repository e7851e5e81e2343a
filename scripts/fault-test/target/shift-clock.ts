/** Loaded before the service (`--import …/shift-clock.ts?ms=60000`): its clock is wrong by so much, as on a machine without NTP. */

const shiftMs = Number(new URL(import.meta.url).searchParams.get('ms'))
const now = Date.now
Date.now = () => now() + shiftMs
