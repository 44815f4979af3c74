-- Prolongs locks that are still their owners'. Never creates one.
-- KEYS  index, then the locks
-- ARGV  for each lock: mark of the owner, TTL in ms, code of the name
-- Returns for each lock 1: renewed | 0: gone | -1: another owner's
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local answers = {}
for i = 2, #KEYS do
  local a = (i - 2) * 3
  local mark = ARGV[a + 1]
  local held = redis.pcall('GET', KEYS[i]) -- an error is a key of another type, and no reason to stop
  if not held then
    answers[i - 1] = 0
  elseif type(held) == 'table' or string.sub(held, 1, #mark) ~= mark then
    answers[i - 1] = -1
  else
    redis.call('PEXPIRE', KEYS[i], ARGV[a + 2])
    redis.call('ZADD', KEYS[1], ms + ARGV[a + 2], ARGV[a + 3])
    answers[i - 1] = 1
  end
end
return answers
