import { decideLetters } from '../api';
import type { Decided, Letter } from '../api';
import { ask } from '../confirm';
import { many, units } from '../words';

const most = 100; // letters in one request

// decide sends the letters piece by piece, and says how all of them ended.
async function decide(how: 'replay' | 'drop', chosen: Letter[], reason: string): Promise<Decided> {
  const all: Decided = { letters: [], failed: [] };
  for (let i = 0; i < chosen.length; i += most) {
    const ids = chosen.slice(i, i + most).map((l) => l.id);
    const d = await decideLetters(how, ids, reason);
    all.letters.push(...(d.letters ?? []));
    all.failed.push(...(d.failed ?? []));
  }
  return all;
}

export function DecideButtons({ chosen, decided }: { chosen: Letter[]; decided: (d: Decided) => void }) {
  const held = chosen.reduce((n, l) => n + (l.order?.quantity ?? 0), 0);
  const run = (how: 'replay' | 'drop') => async ({ reason }: { reason: string }) => {
    const d = await decide(how, chosen, reason);
    decided(d);
    return `${many(d.letters.length, 'letter')} decided${d.failed.length ? `, ${d.failed.length} failed` : ''}.`;
  };
  const replay = () => ask({
    title: `Replay ${many(chosen.length, 'dead letter')}: ${units(held)} are settled now, if stock and limit allow`,
    detail: 'An order that cannot be settled still stays where it is.', verb: 'Replay', reason: 'required', run: run('replay'),
  });
  const drop = () => ask({
    title: `Drop ${many(chosen.length, 'dead letter')}: these orders are rejected, and ${units(held)} can be sold again`,
    detail: 'The buyers see their orders as rejected. This cannot be undone.', verb: 'Drop for good', danger: true, reason: 'required', run: run('drop'),
  });
  return (
    <>
      <button type="button" class="primary" disabled={chosen.length === 0} onClick={replay}>Replay {chosen.length || ''} …</button>
      <button type="button" class="warns" disabled={chosen.length === 0} onClick={drop}>Drop {chosen.length || ''} …</button>
    </>
  );
}
