import { isOver, type Load, type Operation } from './load.ts'
import type { Measurement } from './measurement.ts'
import { runOpenLoop } from './open-loop.ts'
import { elapsedSeconds, perform, type Recording, recordSecond, startRecording } from './recording.ts'

/** Runs the operations for the given time and measures them: closed loop, or open loop at a fixed rate. */
export async function drive(load: Load): Promise<Measurement> {
  const recording = startRecording()
  const endSecond = () => {
    const second = recordSecond(recording)
    load.onSecond?.(second, Math.max(0, load.durationMs / 1000 - second.at))
  }
  const ticker = setInterval(endSecond, 1000)
  try {
    if (load.rate === undefined) await runClosedLoop(load, recording)
    else await runOpenLoop(load, load.rate, recording)
  } finally {
    recording.isClosed = true
    clearInterval(ticker)
  }
  const { measurement } = recording
  if (measurement.series.length === 0) endSecond()
  measurement.seconds = elapsedSeconds(recording)
  return measurement
}

/** Each virtual user starts its next operation when the last one is answered. */
async function runClosedLoop(load: Load, recording: Recording): Promise<void> {
  const repeat = async (operation: Operation) => {
    while (!isOver(load, recording.startedAt))
      if (!(await perform(recording, operation, performance.now()))) return
  }
  await Promise.all(load.operations.map(repeat))
}
