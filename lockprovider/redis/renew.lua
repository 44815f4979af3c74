-- Prolongs locks that are still their owners'. Never creates one.
-- KEYS  index, then the locks
-- ARGV  for each lock: owner, TTL in ms, code of the name
-- Returns for each lock 1: renewed | 0: gone | -1: another owner's
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local answers = {}
for i = 2, #KEYS do
  local a = (i - 2) * 3
  local owner = redis.call('HGET', KEYS[i], 'o')
  if owner == ARGV[a + 1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[a + 2])
    redis.call('ZADD', KEYS[1], ms + tonumber(ARGV[a + 2]), ARGV[a + 3])
    answers[i - 1] = 1
  elseif owner or redis.call('EXISTS', KEYS[i]) == 1 then
    answers[i - 1] = -1
  else
    answers[i - 1] = 0
  end
end
return answers
