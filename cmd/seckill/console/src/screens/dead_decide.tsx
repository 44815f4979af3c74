import { useState } from 'preact/hooks';
import { countAlike, decideAlike, decideLetters } from '../api';
import type { Alike, Decided, Group, Letter } from '../api';
import { ask } from '../confirm';
import { Fault, tell } from '../ui';
import { count, many, units } from '../words';

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

// decideAll lets the server choose all letters of a group that were counted, piece by
// piece, and says how far it is.
async function decideAll(how: 'replay' | 'drop', group: Group, counted: Alike, reason: string): Promise<Decided> {
  const all: Decided = { letters: [], failed: [] };
  for (let after: number | undefined = 0; after !== undefined;) {
    const d: Decided = await decideAlike(how, group, counted.up_to, after, reason);
    all.letters.push(...d.letters);
    all.failed.push(...d.failed);
    after = d.next || undefined;
    if (after) tell(`${count(all.letters.length + all.failed.length)} of ${count(counted.letters)} …`);
  }
  return all;
}

const said = (d: Decided) => `${many(d.letters.length, 'letter')} decided${d.failed.length ? `, ${d.failed.length} failed` : ''}.`;

// question is asked before letters are decided, with how many and how much they are.
function question(how: 'replay' | 'drop', letters: string, held: number, work: (reason: string) => Promise<Decided>, decided: (d: Decided) => void) {
  const run = async ({ reason }: { reason: string }) => { const d = await work(reason); decided(d); return said(d); };
  if (how === 'replay') {
    ask({
      title: `Replay ${letters}: ${units(held)} ${held === 1 ? 'is' : 'are'} settled now, if stock and limit allow`,
      detail: 'An order that cannot be settled still stays where it is.', verb: 'Replay', reason: 'required', run,
    });
    return;
  }
  ask({
    title: `Drop ${letters}: these orders are rejected, and ${units(held)} can be sold again`,
    detail: 'The buyers see their orders as rejected. This cannot be undone.', verb: 'Drop for good', danger: true, reason: 'required', run,
  });
}

export function DecideButtons({ chosen, decided }: { chosen: Letter[]; decided: (d: Decided) => void }) {
  const held = chosen.reduce((n, l) => n + (l.order?.quantity ?? 0), 0);
  const begin = (how: 'replay' | 'drop') => question(how, many(chosen.length, 'dead letter'), held, (reason) => decide(how, chosen, reason), decided);
  return (
    <>
      {chosen.length === 0 && <span class="quiet">Select letters to decide them.</span>}
      <button type="button" class="primary" disabled={chosen.length === 0} onClick={() => begin('replay')}>Replay {chosen.length || ''} …</button>
      <button type="button" class="warns" disabled={chosen.length === 0} onClick={() => begin('drop')}>Drop {chosen.length || ''} …</button>
    </>
  );
}

// AllButtons decides every letter of a group, also those that are not shown. The server
// counts them first; what dies afterwards is not meant.
export function AllButtons({ group, decided }: { group: Group; decided: (d: Decided) => void }) {
  const [error, setError] = useState<Error | null>(null);
  const begin = async (how: 'replay' | 'drop') => {
    setError(null);
    try {
      const counted = await countAlike(group);
      question(how, `all ${many(counted.letters, 'dead letter')} of this reason`, counted.units, (reason) => decideAll(how, group, counted, reason), decided);
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <>
      {error && <Fault error={error} />}
      <button type="button" onClick={() => void begin('replay')}>Replay all of this reason …</button>
      <button type="button" class="warns" onClick={() => void begin('drop')}>Drop all of this reason …</button>
    </>
  );
}
